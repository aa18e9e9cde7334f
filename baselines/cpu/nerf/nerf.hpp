// SPDX-License-Identifier: Apache-2.0
// Steps of rays through nested grids, as the contract of ray_march defines them. Each product of
// two floats is exact in double, so all compilers find the same samples.
#pragma once
#include <algorithm>
#include <cmath>

#include "op.hpp"

namespace fk::cpu {

struct March {
  double near_plane, far_plane, step_size, max_step, cone_angle, threshold, width;
  int64_t max_steps, cubes, cells;
  const float* grid;

  bool occupied(const double* p) const {
    const double x = std::abs(p[0]), y = std::abs(p[1]), z = std::abs(p[2]);
    if (!(x + y + z < 1e300)) return false;
    const double far = std::max(std::max(x, y), z);
    double wide = 1;
    for (int64_t k = 0; k < cubes; ++k, wide *= 2) {
      if (far >= wide / 2) continue;
      int64_t cell = k;
      for (int c = 2; c >= 0; --c) {
        const auto at =
            static_cast<int64_t>(std::floor((p[c] / wide + 0.5) * static_cast<double>(cells)));
        cell = cell * cells + std::clamp<int64_t>(at, 0, cells - 1);
      }
      return static_cast<double>(grid[cell]) > threshold;
    }
    return false;
  }

  // Calls found(point, step) for each sample.
  template <class Found>
  void operator()(const float* origin, const float* direction, const Found& found) const {
    auto t = static_cast<float>(near_plane);
    for (int64_t n = 0; n < max_steps; ++n) {
      const double at = static_cast<double>(t);
      if (!(at < far_plane)) return;
      const auto step =
          static_cast<float>(std::min(std::max(at * cone_angle, step_size), max_step));
      double p[3];
      for (int c = 0; c < 3; ++c)
        p[c] = static_cast<double>(origin[c]) + at * static_cast<double>(direction[c]);
      if (occupied(p)) found(p, step);
      t = static_cast<float>(at + static_cast<double>(step));
    }
  }
};

}  // namespace fk::cpu
