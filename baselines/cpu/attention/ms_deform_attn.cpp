// SPDX-License-Identifier: Apache-2.0
// ms_deform_attn. For each item, a query and head, it first lists the pixels in reach and their
// weights. Then one pass over that list sums each block of channels in registers. The pixels are
// scattered, so the next item's list is made, and its pixels prefetched, before this item's sum.
#include "simd.hpp"

namespace fk::cpu {
// Arguments of one call. Levels are feature maps of several resolutions; an item has `points`
// places on each.
struct Deform {
  const void *value, *places, *weights;
  void* out;
  const int64_t *shapes, *starts;
  // image: elements of an image in `value`
  int64_t queries, heads, levels, points, channels, image;
  int type, place_type;
};
// Pixels of one item: offsets into `value` and weights.
struct DeformList {
  int64_t* offsets;  // room for 4 * levels * points entries, as `shares`
  float* shares;
  int64_t count;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(ms_deform_attn, const Deform&, int64_t begin, int64_t end, DeformList*)

namespace fk::cpu::FK_CPU_LEVEL {

// Lists the pixels of an item, four for each point (bilinear), and prefetches them.
template <class T, class P>
void deform_pixels(const Deform& a, int64_t item, DeformList& list) {
  const P* places = static_cast<const P*>(a.places) + 2 * item * a.levels * a.points;
  const T* weights = static_cast<const T*>(a.weights) + item * a.levels * a.points;
  const int64_t first = item / (a.queries * a.heads) * a.image + item % a.heads * a.channels;
  int64_t count = 0;
  for (int64_t i = 0; i < a.levels * a.points; ++i) {
    const int64_t level = i / a.points, high = a.shapes[2 * level], wide = a.shapes[2 * level + 1];
    const float x = to_float(places[2 * i]) * static_cast<float>(wide) - 0.5f;
    const float y = to_float(places[2 * i + 1]) * static_cast<float>(high) - 0.5f;
    // The negated comparison also skips NaN.
    if (!(x > -1.f && y > -1.f && x < static_cast<float>(wide) && y < static_cast<float>(high)))
      continue;
    const float left = __builtin_floorf(x), top = __builtin_floorf(y);
    const float dx = x - left, dy = y - top, weight = to_float(weights[i]);
    const int64_t column = static_cast<int64_t>(left), row = static_cast<int64_t>(top);
    const int64_t at = a.starts[level] + row * wide + column;
    const bool right = column + 1 < wide, low = row + 1 < high;
    const auto add = [&](bool inside, int64_t pixel, float share) {
      if (!inside) return;
      const int64_t at_pixel = first + pixel * a.heads * a.channels;
      const T* value = static_cast<const T*>(a.value) + at_pixel;
      for (int64_t c = 0; c < a.channels; c += 64 / static_cast<int64_t>(sizeof(T)))
        __builtin_prefetch(value + c);
      list.offsets[count] = at_pixel;
      list.shares[count++] = share * weight;
    };
    add(row >= 0 && column >= 0, at, (1 - dy) * (1 - dx));
    add(row >= 0 && right, at + 1, (1 - dy) * dx);
    add(low && column >= 0, at + wide, dy * (1 - dx));
    add(low && right, at + wide + 1, dy * dx);
  }
  list.count = count;
}

// Sums kBlock vectors of channels from `first` on, over all pixels of the list.
template <class T, int kBlock, class N>
FK_INLINE void deform_sum(const Deform& a, const DeformList& list, T* out, int64_t first, N n) {
  Vf sum[kBlock];
  for (Vf& s : sum) s = Vf{};
  const T* value = static_cast<const T*>(a.value) + first;
  for (int64_t i = 0; i < list.count; ++i) {
    const Vf share = splat(list.shares[i]);
    const T* from = value + list.offsets[i];
    for (int v = 0; v < kBlock; ++v) sum[v] += share * load(from + v * kLanes, n);
  }
  for (int v = 0; v < kBlock; ++v) store(out + first + v * kLanes, sum[v], n);
}

template <class T>
void deform_item(const Deform& a, int64_t item, const DeformList& list) {
  T* out = static_cast<T*>(a.out) + item * a.channels;
  int64_t c = 0;
  for (; c + 4 * kLanes <= a.channels; c += 4 * kLanes) deform_sum<T, 4>(a, list, out, c, Full{});
  for (; c + 2 * kLanes <= a.channels; c += 2 * kLanes) deform_sum<T, 2>(a, list, out, c, Full{});
  for (; c + kLanes <= a.channels; c += kLanes) deform_sum<T, 1>(a, list, out, c, Full{});
  if (c < a.channels) deform_sum<T, 1>(a, list, out, c, a.channels - c);
}

void ms_deform_attn(const Deform& a, int64_t begin, int64_t end, DeformList* lists) {
  with_type(a.type, [&]<class T>() {
    with_type(a.place_type, [&]<class P>() {
      deform_pixels<T, P>(a, begin, lists[begin % 2]);
      for (int64_t item = begin; item < end; ++item) {
        if (item + 1 < end) deform_pixels<T, P>(a, item + 1, lists[(item + 1) % 2]);
        deform_item<T>(a, item, lists[item % 2]);
      }
    });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/ms_deform_attn.h"
#include "op.hpp"

namespace fk::cpu {

struct MsDeformAttnOp {
  using op = fk::ms_deform_attn;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_float(max.value, "value: f32, bf16 or f16");
    need_float(max.sampling_locations, "sampling_locations: f32, bf16 or f16");
    need.scratch = threads_max() * thread_bytes(init);
  }
  MsDeformAttnOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Deform a{};
    a.value = args.value->data;
    a.places = args.sampling_locations->data;
    a.weights = args.attention_weights->data;
    a.out = args.out->data;
    a.shapes = data<int64_t>(args.spatial_shapes);
    a.starts = data<int64_t>(args.level_start_index);
    a.queries = args.out->shape[1];
    a.heads = init_.num_heads;
    a.levels = init_.num_levels;
    a.points = init_.num_points;
    a.channels = init_.head_dim;
    a.image = stride(args.value, 0);
    a.type = type_of(args.value);
    a.place_type = type_of(args.sampling_locations);
    const int64_t items = args.out->shape[0] * a.queries * a.heads, room = a.levels * a.points * 4;
    split(threads_, items, items * room * a.channels * 2, [&](int64_t begin, int64_t end, int t) {
      auto* own = static_cast<char*>(ctx.scratch) + t * thread_bytes(init_);
      auto* offsets = reinterpret_cast<int64_t*>(own);
      auto* shares = reinterpret_cast<float*>(offsets + 2 * room);
      DeformList lists[] = {{offsets, shares, 0}, {offsets + room, shares + room, 0}};
      kernel_(a, begin, end, lists);
    });
  }

 private:
  static int64_t thread_bytes(const op::init& init) {
    // 96: two lists of 4 entries of 12 bytes
    return (init.num_levels * init.num_points * 96 + 63) / 64 * 64;
  }

  const op::init& init_;
  const int threads_;
  decltype(&generic::ms_deform_attn) kernel_ = FK_CPU_PICK(ms_deform_attn);
};
FK_OP(ms_deform_attn, MsDeformAttnOp);

}  // namespace fk::cpu
#endif
