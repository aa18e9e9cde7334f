// SPDX-License-Identifier: Apache-2.0
// gaussian_projection: Lens of splat.hpp, Gaussian by Gaussian.
#include "fk/ops/gaussian_projection.h"

#include "splat.hpp"

namespace fk::reference {
namespace {

struct GaussianProjection : Base<gaussian_projection> {
  using Base::Base;
  static void supports(const op::init&, const op::weights&, const op::forward&, fk_need&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t count = args.means->shape[0];
    const Lens lens{static_cast<double>(init.width), static_cast<double>(init.height), init.eps2d,
                    init.near_plane, init.far_plane};
    for (int64_t b = 0; b < args.viewmats->shape[0]; ++b) {
      const Camera camera(args.viewmats, args.Ks, b);
      for (int64_t i = 0; i < count; ++i) {
        const auto* given = args.opacities.or_null;
        const Flat flat = lens(camera, data<float>(args.means) + 3 * i,
                               data<float>(args.quats) + 4 * i, data<float>(args.scales) + 3 * i,
                               given ? std::min(value(data<float>(given)[i]), 1.0) : 1.0);
        const int64_t at = b * count + i;
        const double mean[] = {flat.x, flat.y}, extent[] = {flat.width, flat.height},
                     conic[] = {flat.xx, flat.xy, flat.yy};
        store(args.means2d, 2 * at, 2, mean);
        store(args.extents, 2 * at, 2, extent);
        store(args.depths, at, 1, &flat.depth);
        store(args.conics, 3 * at, 3, conic);
      }
    }
  }
};
FK_OP(gaussian_projection, GaussianProjection);

}  // namespace
}  // namespace fk::reference
