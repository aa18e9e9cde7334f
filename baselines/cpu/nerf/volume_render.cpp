// SPDX-License-Identifier: Apache-2.0
// volume_render: ray by ray, in double. Rays have unequal numbers of samples, so threads take
// blocks of rays.
#include "level.hpp"

#ifdef FK_CPU_OPS
#include "fk/ops/volume_render.h"
#include "op.hpp"
#include "simd.hpp"

namespace fk::cpu {

struct VolumeRenderOp {
  using op = fk::volume_render;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.features, "features: f32, bf16 or f16");
    need_float(max.colors, "colors: f32, bf16 or f16");
  }
  VolumeRenderOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    split(threads_, args.alphas->shape[0], args.deltas->shape[0] * 160,
          [&](int64_t begin, int64_t end, int) {
            generic::with_type(type_of(args.features), [&]<class F>() {
              generic::with_type(type_of(args.colors), [&]<class C>() {
                for (int64_t t = begin; t < end; ++t) one<F, C>(args, t);
              });
            });
          });
  }

 private:
  template <class F, class C>
  void one(const op::forward& args, int64_t t) const {
    const int32_t* range = data<int32_t>(args.ranges) + 2 * t;
    const auto* features = static_cast<const F*>(args.features->data);
    const auto* colors = static_cast<const C*>(args.colors->data);
    const float* deltas = data<float>(args.deltas);
    const int64_t last = range[1] <= args.deltas->shape[0] ? range[1] : 0;
    double light = 1, rgb[3] = {};
    for (int64_t i = range[0]; i < last; ++i) {
      const auto density =
          static_cast<double>(generic::to_float(features[i * stride(args.features, 0)]));
      const double alpha = -std::expm1(-std::exp(density) * static_cast<double>(deltas[i]));
      for (int c = 0; c < 3; ++c)
        rgb[c] += light * alpha * static_cast<double>(generic::to_float(colors[3 * i + c]));
      light *= 1 - alpha;
      if (light < init_.min_transmittance) break;
    }
    for (int c = 0; c < 3; ++c) data<float>(args.out)[3 * t + c] = static_cast<float>(rgb[c]);
    data<float>(args.alphas)[t] = static_cast<float>(1 - light);
  }

  const op::init& init_;
  const int threads_;
};
FK_OP(volume_render, VolumeRenderOp);

}  // namespace fk::cpu
#endif
