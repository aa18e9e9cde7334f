// SPDX-License-Identifier: Apache-2.0
// grid_coords: distances to the least coordinates of a cloud, over the size of a cell.
#include "fk/ops/grid_coords.h"

#include "op.hpp"

namespace fk::reference {
namespace {

struct GridCoords : Base<grid_coords> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) {
    if (!(init.grid_size > 0)) throw unsupported{"grid_size: above 0"};
  }
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t points = args.points->shape[1];
    for (int64_t b = 0; b < args.points->shape[0]; ++b) {
      const float* cloud = data<float>(args.points) + b * points * 3;
      int32_t* out = data<int32_t>(args.out) + b * points * 4;
      for (int64_t c = 0; c < 3; ++c) {
        float least = std::numeric_limits<float>::infinity();
        for (int64_t i = 0; i < points; ++i) least = std::min(least, cloud[3 * i + c]);
        for (int64_t i = 0; i < points; ++i) {
          const double cell = std::floor((value(cloud[3 * i + c]) - value(least)) / init.grid_size);
          const auto last = static_cast<double>(init.edge - 1);
          out[4 * i] = static_cast<int32_t>(b);
          out[4 * i + 1 + c] = static_cast<int32_t>(cell > 0 ? std::min(cell, last) : 0);
        }
      }
    }
  }
};
FK_OP(grid_coords, GridCoords);

}  // namespace
}  // namespace fk::reference
