// SPDX-License-Identifier: Apache-2.0
// gaussian_radii: rounds toward zero, and adds 1 where this was too low. Memory bounds its time.
#include "simd.hpp"

FK_CPU_KERNEL(round_up, const float* x, int32_t* out, int64_t count)

namespace fk::cpu::FK_CPU_LEVEL {

void round_up(const float* x, int32_t* out, int64_t count) {
  each_vector(count, [&](int64_t i, auto n) {
    const Vf v = load(x + i, n);
    const Vi whole = __builtin_convertvector(v, Vi);
    // A true comparison is -1 in each lane.
    const Vi up = whole - (__builtin_convertvector(whole, Vf) < v);
    std::memcpy(out + i, &up, static_cast<size_t>(lanes(n)) * 4);
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/gaussian_radii.h"
#include "op.hpp"

namespace fk::cpu {

struct GaussianRadiiOp {
  using op = fk::gaussian_radii;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward&, fk_need&) {}
  GaussianRadiiOp(const fk_host& host, const op::init&, const op::weights&)
      : threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const float* x = data<float>(args.extents);
    int32_t* out = data<int32_t>(args.radii);
    split_tiles(
        threads_, 1, fk_numel(args.extents), args.extents->nbytes * 2,
        [&](int64_t, int64_t begin, int64_t end) { kernel_(x + begin, out + begin, end - begin); });
  }

 private:
  const int threads_;
  decltype(&generic::round_up) kernel_ = FK_CPU_PICK(round_up);
};
FK_OP(gaussian_radii, GaussianRadiiOp);

}  // namespace fk::cpu
#endif
