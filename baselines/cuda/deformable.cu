// SPDX-License-Identifier: Apache-2.0
// ms_deform_attn: a thread has eight channels of a head of a query. Its neighbours have the other
// channels, so the cache serves the sampling locations.
#include "fk/ops/ms_deform_attn.h"
#include "parts/op.cuh"

namespace {
using namespace fkc;

struct Maps {
  const int64_t *shapes, *starts;
  int64_t items, queries, pixels;  // items: threads with work; pixels: of all levels
  int heads, vectors, levels, points;
};

// P is the dtype of the places.
template <class T, class P>
__global__ void __launch_bounds__(kItemThreads) sample_maps(const T* value, const P* places, const T* weights, T* out, Maps m) {
  wait_for_inputs();
  const int64_t i = item_of_thread();
  if (i >= m.items) return;
  const int vector = int(i % m.vectors), row = m.heads * m.vectors;  // vectors of a pixel
  const int64_t head = i / m.vectors, image = head / m.heads / m.queries;
  const T* const from = value + (image * m.pixels * row + head % m.heads * m.vectors + vector) * 8;
  float sum[8] = {};
  for (int l = 0; l < m.levels; ++l) {
    const int high = int(m.shapes[2 * l]), wide = int(m.shapes[2 * l + 1]);
    const T* const level = from + m.starts[l] * row * 8;
    for (int p = 0; p < m.points; ++p) {
      const int64_t at = (head * m.levels + l) * m.points + p;
      const float weight = to_float(weights[at]);
      const float x = to_float(places[2 * at]) * float(wide) - 0.5F, y = to_float(places[2 * at + 1]) * float(high) - 0.5F;
      if (!(x > -1.F && y > -1.F && x < float(wide) && y < float(high))) continue;
      const int left = int(floorf(x)), top = int(floorf(y));
      const float across = x - float(left), down = y - float(top);
#pragma unroll
      for (int corner = 0; corner < 4; ++corner) {
        const int cx = left + corner % 2, cy = top + corner / 2;
        if (cx < 0 || cy < 0 || cx >= wide || cy >= high) continue;
        const float share = weight * (corner % 2 ? across : 1.F - across) * (corner / 2 ? down : 1.F - down);
        const Vec8<T> v = load8(level + (int64_t(cy) * wide + cx) * row * 8);
#pragma unroll
        for (int k = 0; k < 8; ++k) sum[k] += share * to_float(v.at[k]);
      }
    }
  }
  Vec8<T> o;
#pragma unroll
  for (int k = 0; k < 8; ++k) o.at[k] = from_float<T>(sum[k]);
  store8(out + i * 8, o);
}

struct DeformableAttention : Base<fk::ms_deform_attn> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_16bit(max.value);
    need(init.head_dim % 8 == 0, "head_dim: a multiple of 8 only");
    need(FK_DTYPE(max.sampling_locations) == FK_F32 || FK_DTYPE(max.sampling_locations) == FK_DTYPE(max.value),
         "sampling_locations: the dtype of value or float32 only");
    need(max.value->shape[1] < int64_t{1} << 30, "pixels: fewer than 2^30");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t queries = a.out->shape[1], vectors = init.head_dim / 8, items = a.out->shape[0] * queries * init.num_heads * vectors;
    if (!items) return;
    const Maps maps{fk::data<int64_t>(a.spatial_shapes), fk::data<int64_t>(a.level_start_index), items, queries, a.value->shape[1], int(init.num_heads),
                    int(vectors), int(init.num_levels), int(init.num_points)};
    dispatch(a.value, [&](auto type) {
      using T = decltype(type);
      const auto go = [&](auto kernel, auto* places) {
        launch(kernel, blocks_of(items), kItemThreads, 0, ctx, fk::data<T>(a.value), places, fk::data<T>(a.attention_weights), fk::data<T>(a.out),
               maps);
      };
      if (FK_DTYPE(a.sampling_locations) == FK_F32) go(sample_maps<T, float>, fk::data<float>(a.sampling_locations));
      else go(sample_maps<T, T>, fk::data<T>(a.sampling_locations));
    });
  }
};
FK_OP(ms_deform_attn, DeformableAttention);

}  // namespace
