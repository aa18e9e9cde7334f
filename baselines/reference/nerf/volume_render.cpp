// SPDX-License-Identifier: Apache-2.0
// volume_render: Light of nerf.hpp, ray by ray.
#include "fk/ops/volume_render.h"

#include "nerf.hpp"

namespace fk::reference {
namespace {

struct VolumeRender : Base<volume_render> {
  using Base::Base;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_floats(max.features, max.colors);
  }
  void forward(const op::forward& args, const fk_ctx&) {
    const auto* ranges = data<int32_t>(args.ranges);
    for (int64_t t = 0; t < args.alphas->shape[0]; ++t) {
      Light light;
      const int64_t last = ranges[2 * t + 1];
      for (int64_t i = ranges[2 * t]; last <= args.deltas->shape[0] && i < last; ++i) {
        double log_density, rgb[3];
        load(args.features, offset(args.features, i), 1, &log_density);
        load(args.colors, 3 * i, 3, rgb);
        if (!light.add(log_density, rgb, value(data<float>(args.deltas)[i]),
                       init.min_transmittance))
          break;
      }
      const double alpha = 1 - light.left;
      store(args.out, 3 * t, 3, light.colour.data());
      store(args.alphas, t, 1, &alpha);
    }
  }
};
FK_OP(volume_render, VolumeRender);

}  // namespace
}  // namespace fk::reference
