// SPDX-License-Identifier: Apache-2.0
// gaussian_projection: a vector of Gaussians at a time, whose numbers are collected into vectors.
#include "simd.hpp"

namespace fk::cpu {
struct ProjectedGaussians {
  const float *means, *quats, *scales, *opacities_or_null;
  const float *view, *intrinsics;  // of the image
  float *means2d, *extents, *depths, *conics;
  float width, height, eps2d, near_plane, far_plane;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(project_gaussians, const ProjectedGaussians&, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

// Element `at` of n rows of `width` numbers; zeros behind them.
FK_INLINE Vf column_of(const float* rows, int64_t width, int64_t at, int64_t n) {
  Vf v = {};
  for (int64_t i = 0; i < n; ++i) v[i] = rows[i * width + at];
  return v;
}
FK_INLINE void put_column(float* rows, int64_t width, int64_t at, int64_t n, Vf v) {
  for (int64_t i = 0; i < n; ++i) rows[i * width + at] = v[i];
}
FK_INLINE Vf roots(Vf v) {
  for (int64_t i = 0; i < kLanes; ++i) v[i] = root(v[i]);
  return v;
}
FK_INLINE Vf clamped(Vf v, float low, float high) { return max(splat(low), min(v, splat(high))); }

// Half-widths of a box in standard deviations: to an alpha of 1/255, at most 3.33.
FK_INLINE Vf deviations_of(Vf opacity) {
  for (int64_t i = 0; i < kLanes; ++i) {
    const float squared = 2 * __builtin_logf(opacity[i] * 255.f);
    opacity[i] = squared > 0 ? root(squared) : 0;
  }
  return min(opacity, splat(3.33f));
}

FK_INLINE void project_some(const ProjectedGaussians& a, int64_t first, int64_t n) {
  const float *view = a.view, *k = a.intrinsics;
  const Vf mx = column_of(a.means + 3 * first, 3, 0, n),
           my = column_of(a.means + 3 * first, 3, 1, n),
           mz = column_of(a.means + 3 * first, 3, 2, n);
  Vf p[3];
  for (int row = 0; row < 3; ++row)
    p[row] =
        mx * view[row * 4] + my * view[row * 4 + 1] + mz * view[row * 4 + 2] + view[row * 4 + 3];
  Vi seen = (p[2] > splat(a.near_plane)) & (p[2] < splat(a.far_plane));
  Vf deviations = splat(3.33f);
  if (a.opacities_or_null) {
    const Vf opacity = column_of(a.opacities_or_null + first, 1, 0, n);
    seen &= opacity >= splat(1.f / 255);
    deviations = deviations_of(opacity);
  }
  const Vf z = seen ? p[2] : splat(1.f), inverse = 1.f / z;

  Vf w = column_of(a.quats + 4 * first, 4, 0, n), x = column_of(a.quats + 4 * first, 4, 1, n),
     y = column_of(a.quats + 4 * first, 4, 2, n), r = column_of(a.quats + 4 * first, 4, 3, n);
  const Vf length = 1.f / max(splat(1e-12f), roots(w * w + x * x + y * y + r * r));
  w *= length, x *= length, y *= length, r *= length;
  const Vf own[9] = {
      1.f - 2.f * (y * y + r * r), 2.f * (x * y - w * r),       2.f * (x * r + w * y),
      2.f * (x * y + w * r),       1.f - 2.f * (x * x + r * r), 2.f * (y * r - w * x),
      2.f * (x * r - w * y),       2.f * (y * r + w * x),       1.f - 2.f * (x * x + y * y)};
  const float fx = k[0], fy = k[4], cx = k[2], cy = k[5];
  const float tan_x = 0.5f * a.width / fx, tan_y = 0.5f * a.height / fy;
  const Vf u =
      clamped(p[0] * inverse, -(cx / fx + 0.3f * tan_x), (a.width - cx) / fx + 0.3f * tan_x);
  const Vf v =
      clamped(p[1] * inverse, -(cy / fy + 0.3f * tan_y), (a.height - cy) / fy + 0.3f * tan_y);
  Vf xx = {}, xy = {}, yy = {}, gx[3], gy[3];
  for (int axis = 0; axis < 3; ++axis) {
    const Vf scale = column_of(a.scales + 3 * first, 3, axis, n);
    Vf turned[3];
    for (int row = 0; row < 3; ++row)
      turned[row] = (own[axis] * view[row * 4] + own[3 + axis] * view[row * 4 + 1] +
                     own[6 + axis] * view[row * 4 + 2]) *
                    scale;
    gx[axis] = (turned[0] - u * turned[2]) * inverse * fx;
    gy[axis] = (turned[1] - v * turned[2]) * inverse * fy;
    xx += gx[axis] * gx[axis], xy += gx[axis] * gy[axis], yy += gy[axis] * gy[axis];
  }
  // The determinant of gg^T + eps I, as sums of squares: the difference of two products would
  // cancel.
  Vf det = a.eps2d * (xx + yy) + a.eps2d * a.eps2d;
  for (int i = 0; i < 3; ++i) {
    const Vf cross = gx[i] * gy[(i + 1) % 3] - gx[(i + 1) % 3] * gy[i];
    det += cross * cross;
  }
  xx += a.eps2d, yy += a.eps2d;
  const Vf scale = 1.f / max(splat(1e-10f), det);
  const auto kept = [&](Vf value) { return seen ? value : Vf{}; };
  put_column(a.means2d + 2 * first, 2, 0, n, kept(p[0] * inverse * fx + cx));
  put_column(a.means2d + 2 * first, 2, 1, n, kept(p[1] * inverse * fy + cy));
  put_column(a.extents + 2 * first, 2, 0, n, kept(deviations * roots(xx)));
  put_column(a.extents + 2 * first, 2, 1, n, kept(deviations * roots(yy)));
  put_column(a.depths + first, 1, 0, n, kept(p[2]));
  put_column(a.conics + 3 * first, 3, 0, n, kept(yy * scale));
  put_column(a.conics + 3 * first, 3, 1, n, kept(-xy * scale));
  put_column(a.conics + 3 * first, 3, 2, n, kept(xx * scale));
}

// Gaussians [begin, end) of an image.
void project_gaussians(const ProjectedGaussians& a, int64_t begin, int64_t end) {
  for (; begin + kLanes <= end; begin += kLanes) project_some(a, begin, kLanes);
  if (begin < end) project_some(a, begin, end - begin);
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/gaussian_projection.h"
#include "op.hpp"

namespace fk::cpu {

struct GaussianProjectionOp {
  using op = fk::gaussian_projection;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward&, fk_need&) {}
  GaussianProjectionOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t count = args.means->shape[0];
    for (int64_t b = 0; b < args.viewmats->shape[0]; ++b) {
      const ProjectedGaussians a{data<float>(args.means),
                                 data<float>(args.quats),
                                 data<float>(args.scales),
                                 data<float>(args.opacities),
                                 data<float>(args.viewmats) + 16 * b,
                                 data<float>(args.Ks) + 9 * b,
                                 data<float>(args.means2d) + 2 * b * count,
                                 data<float>(args.extents) + 2 * b * count,
                                 data<float>(args.depths) + b * count,
                                 data<float>(args.conics) + 3 * b * count,
                                 static_cast<float>(init_.width),
                                 static_cast<float>(init_.height),
                                 static_cast<float>(init_.eps2d),
                                 static_cast<float>(init_.near_plane),
                                 static_cast<float>(init_.far_plane)};
      split_by(16, threads_, count, count * 160,
               [&](int64_t begin, int64_t end, int) { kernel_(a, begin, end); });
    }
  }

 private:
  const op::init& init_;
  const int threads_;
  decltype(&generic::project_gaussians) kernel_ = FK_CPU_PICK(project_gaussians);
};
FK_OP(gaussian_projection, GaussianProjectionOp);

}  // namespace fk::cpu
#endif
