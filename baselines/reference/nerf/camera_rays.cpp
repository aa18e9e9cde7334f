// SPDX-License-Identifier: Apache-2.0
// camera_rays: Ray of nerf.hpp, pixel by pixel.
#include "fk/ops/camera_rays.h"

#include "nerf.hpp"

namespace fk::reference {
namespace {

struct CameraRays : Base<camera_rays> {
  using Base::Base;
  static void supports(const op::init&, const op::weights&, const op::forward&, fk_need&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t height = init.image_size->at[0], width = init.image_size->at[1];
    auto *origins = data<float>(args.origins), *directions = data<float>(args.directions);
    for (int64_t b = 0; b < args.viewmats->shape[0]; ++b) {
      const Camera camera(args.viewmats, args.Ks, b);
      for (int64_t at = 0; at < height * width; ++at, origins += 3, directions += 3) {
        const Ray ray(camera, static_cast<double>(at % width), static_cast<double>(at / width));
        std::ranges::copy(ray.origin, origins);
        std::ranges::copy(ray.direction, directions);
      }
    }
  }
};
FK_OP(camera_rays, CameraRays);

}  // namespace
}  // namespace fk::reference
