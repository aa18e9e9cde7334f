// SPDX-License-Identifier: Apache-2.0
// spherical_harmonics: the harmonics of a vector of points, then the sums of each point, three
// colours at a time. Reading the coefficients bounds its time.
#include "simd.hpp"

namespace fk::cpu {
struct SeenColours {
  const float *means, *view;
  const void* coeffs;
  float* out;
  int64_t terms;  // of a colour: 1, 4, 9 or 16
  float offset;
  int type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(seen_colours, const SeenColours&, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

// The harmonics of up to a vector of points from `first` on.
FK_INLINE void harmonics_of(const SeenColours& a, int64_t first, int64_t n, Vf (&basis)[16]) {
  Vf d[3] = {};
  for (int c = 0; c < 3; ++c) {
    float origin = 0;
    for (int row = 0; row < 3; ++row) origin += a.view[row * 4 + c] * a.view[row * 4 + 3];
    for (int64_t i = 0; i < n; ++i) d[c][i] = a.means[(first + i) * 3 + c];
    d[c] += origin;
  }
  Vf norm = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
  for (int64_t i = 0; i < kLanes; ++i) norm[i] = root(norm[i]);
  norm = 1.f / max(splat(1e-12f), norm);
  const Vf x = d[0] * norm, y = d[1] * norm, z = d[2] * norm, zz = z * z, xx = x * x, yy = y * y;
  basis[0] = splat(0.28209479f);
  basis[1] = -0.48860251f * y;
  basis[2] = 0.48860251f * z;
  basis[3] = -0.48860251f * x;
  basis[4] = 1.09254843f * x * y;
  basis[5] = -1.09254843f * y * z;
  basis[6] = 0.31539157f * (3.f * zz - 1.f);
  basis[7] = -1.09254843f * x * z;
  basis[8] = 0.54627422f * (xx - yy);
  basis[9] = -0.59004359f * y * (3.f * xx - yy);
  basis[10] = 2.89061144f * x * y * z;
  basis[11] = -0.45704580f * y * (5.f * zz - 1.f);
  basis[12] = 0.37317633f * z * (5.f * zz - 3.f);
  basis[13] = -0.45704580f * x * (5.f * zz - 1.f);
  basis[14] = 1.44530572f * z * (xx - yy);
  basis[15] = -0.59004359f * x * (xx - 3.f * yy);
}

// Points [begin, end).
void seen_colours(const SeenColours& a, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    for (int64_t first = begin; first < end; first += kLanes) {
      const int64_t n = end - first < kLanes ? end - first : kLanes;
      Vf basis[16];
      harmonics_of(a, first, n, basis);
      for (int64_t i = 0; i < n; ++i) {
        const T* row = static_cast<const T*>(a.coeffs) + (first + i) * a.terms * 3;
        float sums[3] = {a.offset, a.offset, a.offset};
        for (int64_t k = 0; k < a.terms; ++k)
          for (int c = 0; c < 3; ++c) sums[c] += basis[k][i] * to_float(row[k * 3 + c]);
        for (int c = 0; c < 3; ++c) a.out[(first + i) * 3 + c] = sums[c] > 0 ? sums[c] : 0;
      }
    }
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/spherical_harmonics.h"
#include "op.hpp"

namespace fk::cpu {

struct SphericalHarmonicsOp {
  using op = fk::spherical_harmonics;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.coeffs, "coeffs: f32, bf16 or f16");
    if (max.coeffs->shape[1] != (init.degree + 1) * (init.degree + 1))
      throw unsupported{"coeffs: (degree + 1)^2 for each point"};
  }
  SphericalHarmonicsOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t count = args.means->shape[0];
    for (int64_t b = 0; b < args.viewmats->shape[0]; ++b) {
      const SeenColours a{data<float>(args.means), data<float>(args.viewmats) + 16 * b,
                          args.coeffs->data,       data<float>(args.out) + 3 * b * count,
                          args.coeffs->shape[1],   static_cast<float>(init_.offset),
                          type_of(args.coeffs)};
      split_by(16, threads_, count, args.coeffs->nbytes * 2 + count * 40,
               [&](int64_t begin, int64_t end, int) { kernel_(a, begin, end); });
    }
  }

 private:
  const op::init& init_;
  const int threads_;
  decltype(&generic::seen_colours) kernel_ = FK_CPU_PICK(seen_colours);
};
FK_OP(spherical_harmonics, SphericalHarmonicsOp);

}  // namespace fk::cpu
#endif
