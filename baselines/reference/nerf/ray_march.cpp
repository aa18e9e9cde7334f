// SPDX-License-Identifier: Apache-2.0
// ray_march: March of nerf.hpp, ray by ray.
#include "fk/ops/ray_march.h"

#include "nerf.hpp"

namespace fk::reference {
namespace {

// A number of samples that 32 bits cannot hold is beyond every room, and so is the largest number.
int32_t range_end(int64_t samples) {
  return static_cast<int32_t>(std::min<int64_t>(samples, INT32_MAX));
}

struct RayMarch : Base<ray_march> {
  using Base::Base;
  static void supports(const op::init&, const op::weights&, const op::forward&, fk_need&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const March march(init, args.density_grid);
    const int64_t rays = args.origins->shape[0], room = args.deltas->shape[0];
    auto *positions = data<float>(args.positions), *deltas = data<float>(args.deltas);
    auto *ids = data<int32_t>(args.ray_ids), *ranges = data<int32_t>(args.ranges);
    int64_t found = 0;
    for (int64_t t = 0; t < rays; ++t) {
      ranges[2 * t] = range_end(found);
      march(data<float>(args.origins) + 3 * t, data<float>(args.directions) + 3 * t,
            [&](const std::array<float, 3>& at, float step) {
              if (found < room) {
                std::ranges::copy(at, positions + 3 * found);
                deltas[found] = step;
                ids[found] = static_cast<int32_t>(t);
              }
              ++found;
            });
      ranges[2 * t + 1] = range_end(found);
    }
    data<int64_t>(args.n_samples)[0] = found;
    for (int64_t i = found; i < room; ++i) {
      std::fill_n(positions + 3 * i, 3, 0.0F);
      deltas[i] = 0;
      ids[i] = 0;
    }
  }
};
FK_OP(ray_march, RayMarch);

}  // namespace
}  // namespace fk::reference
