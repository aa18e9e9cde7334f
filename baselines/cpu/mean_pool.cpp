// SPDX-License-Identifier: Apache-2.0
// mean_pool: a few channels of an image stay in registers while its positions pass by.
#include "simd.hpp"

namespace fk::cpu {
struct MeanPool {
  const void* x;
  void* out;
  int64_t positions, channels;
  int type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(mean_pool, const MeanPool&, int64_t image, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

template <int kVectors, class T, class N>
FK_INLINE void mean_of(const MeanPool& a, const T* x, T* out, N n) {
  Vf sums[kVectors] = {};
  for (int64_t p = 0; p < a.positions; ++p, x += a.channels)
    for (int v = 0; v < kVectors; ++v) sums[v] += load(x + v * kLanes, n);
  const float count = static_cast<float>(a.positions);
  for (int v = 0; v < kVectors; ++v) store(out + v * kLanes, sums[v] / count, n);
}

// Channels [begin, end) of one image.
void mean_pool(const MeanPool& a, int64_t image, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    const T* x = static_cast<const T*>(a.x) + image * a.positions * a.channels;
    T* out = static_cast<T*>(a.out) + image * a.channels;
    int64_t c = begin;
    for (; c + 8 * kLanes <= end; c += 8 * kLanes) mean_of<8>(a, x + c, out + c, Full{});
    each_vector(end - c, [&](int64_t i, auto n) { mean_of<1>(a, x + c + i, out + c + i, n); });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/mean_pool.h"
#include "op.hpp"

namespace fk::cpu {

struct MeanPoolOp {
  using op = fk::mean_pool;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.x, "x: f32, bf16 or f16");
  }
  MeanPoolOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const MeanPool a{args.x->data, args.out->data, args.x->shape[1] * args.x->shape[2], init_.size,
                     type_of(args.x)};
    constexpr int64_t kTile =
        128;  // channels: whole cache lines, and enough for every vector width
    const int64_t tiles = (a.channels + kTile - 1) / kTile;
    split(threads_, args.x->shape[0] * tiles, args.x->nbytes,
          [&](int64_t first, int64_t last, int) {
            for (int64_t i = first; i < last; ++i) {
              const int64_t begin = i % tiles * kTile;
              kernel_(a, i / tiles, begin, std::min(a.channels, begin + kTile));
            }
          });
  }

 private:
  const op::init& init_;
  const int threads_;
  decltype(&generic::mean_pool) kernel_ = FK_CPU_PICK(mean_pool);
};
FK_OP(mean_pool, MeanPoolOp);

}  // namespace fk::cpu
#endif
