// SPDX-License-Identifier: Apache-2.0
// spherical_harmonics_encoding: up to 16 polynomials of each direction.
#include "level.hpp"

#ifdef FK_CPU_OPS
#include "fk/ops/spherical_harmonics_encoding.h"
#include "op.hpp"

namespace fk::cpu {

struct SphericalHarmonicsEncodingOp {
  using op = fk::spherical_harmonics_encoding;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward&, fk_need&) {}
  SphericalHarmonicsEncodingOp(const fk_host& host, const op::init&, const op::weights&)
      : threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t terms = args.out->shape[1];
    split(threads_, args.out->shape[0], args.out->nbytes * 2, [&](int64_t begin, int64_t end, int) {
      for (int64_t t = begin; t < end; ++t) {
        const float* d = data<float>(args.directions) + 3 * t;
        const float x = d[0], y = d[1], z = d[2], zz = z * z, xx = x * x, yy = y * y;
        const float all[16] = {0.28209479F,
                               -0.48860251F * y,
                               0.48860251F * z,
                               -0.48860251F * x,
                               1.09254843F * x * y,
                               -1.09254843F * y * z,
                               0.31539157F * (3.F * zz - 1.F),
                               -1.09254843F * x * z,
                               0.54627422F * (xx - yy),
                               -0.59004359F * y * (3.F * xx - yy),
                               2.89061144F * x * y * z,
                               -0.45704580F * y * (5.F * zz - 1.F),
                               0.37317633F * z * (5.F * zz - 3.F),
                               -0.45704580F * x * (5.F * zz - 1.F),
                               1.44530572F * z * (xx - yy),
                               -0.59004359F * x * (xx - 3.F * yy)};
        std::copy_n(all, terms, data<float>(args.out) + t * terms);
      }
    });
  }

 private:
  const int threads_;
};
FK_OP(spherical_harmonics_encoding, SphericalHarmonicsEncodingOp);

}  // namespace fk::cpu
#endif
