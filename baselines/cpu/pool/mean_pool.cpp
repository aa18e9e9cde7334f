// SPDX-License-Identifier: Apache-2.0
// mean_pool: reads the positions in the order of memory and adds them to sums in the first-level
// cache.
#include "simd.hpp"

namespace fk::cpu {
struct MeanPool {
  const void* x;
  void* out;
  int64_t positions, channels;
  int type;
};
inline constexpr int64_t kPoolTile = 1024;  // channels of one item
}  // namespace fk::cpu
FK_CPU_KERNEL(mean_pool, const MeanPool&, int64_t image, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

// Channels [begin, end) of one image, kPoolTile at most.
void mean_pool(const MeanPool& a, int64_t image, int64_t begin, int64_t end) {
  alignas(64) float sums[kPoolTile] = {};
  const int64_t base = image * a.positions * a.channels + begin, count = end - begin;
  with_type(a.type, [&]<class T>() {
    const T* x = static_cast<const T*>(a.x) + base;
    for (int64_t p = 0; p < a.positions; ++p, x += a.channels)
      each_vector(count, [&](int64_t c, auto n) {
        store(sums + c, load(sums + c, n) + load(x + c, n), n);
      });
    T* out = static_cast<T*>(a.out) + image * a.channels + begin;
    const float positions = static_cast<float>(a.positions);
    each_vector(count,
                [&](int64_t c, auto n) { store(out + c, load(sums + c, n) / positions, n); });
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
    const int64_t tiles = (a.channels + kPoolTile - 1) / kPoolTile;
    split(threads_, args.x->shape[0] * tiles, args.x->nbytes,
          [&](int64_t first, int64_t last, int) {
            for (int64_t i = first; i < last; ++i) {
              const int64_t begin = i % tiles * kPoolTile;
              kernel_(a, i / tiles, begin, std::min(a.channels, begin + kPoolTile));
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
