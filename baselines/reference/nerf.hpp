// SPDX-License-Identifier: Apache-2.0
// Neural radiance fields (Müller et al. 2022), in double, for the ops of radiance fields.
#pragma once
#include <array>

#include "splat.hpp"

namespace fk::reference {

// The ray of a pixel, rounded to float32 as the contracts say.
struct Ray {
  std::array<float, 3> origin, direction;

  Ray(const Camera& camera, double column, double row) {
    const std::array<double, 3> seen{(column + 0.5 - camera.cx) / camera.fx,
                                     (row + 0.5 - camera.cy) / camera.fy, 1};
    std::array<double, 3> d{}, o{};
    double squares = 0;
    for (size_t c = 0; c < 3; ++c) {
      for (size_t r = 0; r < 3; ++r) {
        d[c] += camera.rotation[r * 3 + c] * seen[r];
        o[c] -= camera.rotation[r * 3 + c] * camera.translation[r];
      }
      squares += d[c] * d[c];
    }
    for (size_t c = 0; c < 3; ++c) {
      direction[c] = static_cast<float>(d[c] / std::sqrt(squares));
      origin[c] = static_cast<float>(o[c]);
    }
  }
};

// Steps along a ray through nested grids. `grid` is [cubes, cells, cells, cells].
struct March {
  double near_plane, far_plane, step_size, max_step, cone_angle, threshold;
  int64_t max_steps, cubes, cells;
  const float* grid;

  template <class Init>
  March(const Init& init, const fk_in* density_grid)
      : near_plane(init.near_plane),
        far_plane(init.far_plane),
        step_size(init.step_size),
        max_step(init.max_step),
        cone_angle(init.cone_angle),
        threshold(init.threshold),
        max_steps(init.max_steps),
        cubes(density_grid->shape[0]),
        cells(density_grid->shape[1]),
        grid(data<float>(density_grid)) {}

  // Calls found(position, delta) for each sample. The position is in the largest cube, from 0 to 1.
  template <class Found>
  void operator()(const float* origin, const float* direction, const Found& found) const {
    auto t = static_cast<float>(near_plane);
    const double width = std::ldexp(1.0, static_cast<int>(cubes) - 1);
    for (int64_t n = 0; n < max_steps && value(t) < far_plane; ++n) {
      const auto step =
          static_cast<float>(std::min(std::max(value(t) * cone_angle, step_size), max_step));
      std::array<double, 3> p;
      for (size_t c = 0; c < 3; ++c) p[c] = value(origin[c]) + value(t) * value(direction[c]);
      if (occupied(p)) {
        std::array<float, 3> at;
        for (size_t c = 0; c < 3; ++c) at[c] = static_cast<float>(p[c] / width + 0.5);
        found(at, step);
      }
      t = static_cast<float>(value(t) + value(step));
    }
  }

 private:
  bool occupied(const std::array<double, 3>& p) const {
    const double far = std::max({std::abs(p[0]), std::abs(p[1]), std::abs(p[2])});
    if (!(std::abs(p[0]) + std::abs(p[1]) + std::abs(p[2]) < 1e300)) return false;
    double width = 1;
    for (int64_t k = 0; k < cubes; ++k, width *= 2) {
      if (far >= width / 2) continue;
      int64_t cell = k;
      for (size_t c = 3; c-- > 0;) {
        const double at = std::floor((p[c] / width + 0.5) * static_cast<double>(cells));
        cell = cell * cells + std::clamp<int64_t>(static_cast<int64_t>(at), 0, cells - 1);
      }
      return value(grid[cell]) > threshold;
    }
    return false;
  }
};

// Levels of a table of hashed corners.
struct HashGrid {
  struct Level {
    double scale;
    int64_t edge, first, rows;
  };
  static constexpr int64_t kMostLevels = 64;

  std::array<Level, kMostLevels> levels;
  int64_t count, features, rows = 0;

  template <class Init>
  explicit HashGrid(const Init& init) : count(init.n_levels), features(init.n_features) {
    if (count > kMostLevels) throw unsupported{"n_levels: 1 to 64"};
    for (int64_t l = 0; l < count; ++l) {
      Level& level = levels[static_cast<size_t>(l)];
      level.scale = static_cast<double>(init.base_resolution) *
                        std::pow(init.per_level_scale, static_cast<double>(l)) -
                    1;
      if (!(level.scale < (1 << 20) - 1))
        throw unsupported{"per_level_scale: levels of 2^20 corners"};
      level.edge = static_cast<int64_t>(std::ceil(level.scale)) + 1;
      level.first = rows;
      level.rows = std::min(int64_t{1} << init.log2_hashmap_size,
                            (level.edge * level.edge * level.edge + 7) / 8 * 8);
      rows += level.rows;
    }
  }

  static int64_t row(const Level& level, uint32_t x, uint32_t y, uint32_t z) {
    const auto edge = static_cast<uint32_t>(level.edge);
    const bool dense = level.edge * level.edge * level.edge <= level.rows;
    const uint32_t at =
        dense ? x + y * edge + z * edge * edge : x ^ (y * 2654435761U) ^ (z * 805459861U);
    return level.first + static_cast<int64_t>(at) % level.rows;
  }

  // out: [count * features]; `row_of` has room for the features of a corner.
  void encode(const fk_in* table, const float* position, double* out, double* row_of) const {
    for (int64_t l = 0; l < count; ++l, out += features) {
      const Level& level = levels[static_cast<size_t>(l)];
      std::array<uint32_t, 3> low;
      std::array<double, 3> part;
      for (size_t c = 0; c < 3; ++c) {
        const double x = value(position[c]) > 0 ? std::min(value(position[c]), 1.0) : 0;
        const double p = x * level.scale + 0.5, floor = std::floor(p);
        low[c] = static_cast<uint32_t>(floor);
        part[c] = p - floor;
      }
      std::fill_n(out, features, 0.0);
      for (uint32_t corner = 0; corner < 8; ++corner) {
        double share = 1;
        std::array<uint32_t, 3> at = low;
        for (uint32_t c = 0; c < 3; ++c) {
          const bool high = corner >> c & 1;
          at[c] += high;
          share *= high ? part[c] : 1 - part[c];
        }
        load(table, row(level, at[0], at[1], at[2]) * features, features, row_of);
        for (int64_t f = 0; f < features; ++f) out[f] += share * row_of[f];
      }
    }
  }
};

// All harmonics of orders 0 to 3 of a unit vector.
inline std::array<double, 16> harmonics_of(double x, double y, double z) {
  const double c = 1.0925484305920792, f = 0.59004358992664352, h = 0.45704579946446572;
  return {0.28209479177387814,
          -0.48860251190291992 * y,
          0.48860251190291992 * z,
          -0.48860251190291992 * x,
          c * x * y,
          -c * y * z,
          0.31539156525252005 * (3 * z * z - 1),
          -c * x * z,
          c / 2 * (x * x - y * y),
          -f * y * (3 * x * x - y * y),
          2.8906114426405538 * x * y * z,
          -h * y * (5 * z * z - 1),
          0.3731763325901154 * z * (5 * z * z - 3),
          -h * x * (5 * z * z - 1),
          1.4453057213202769 * z * (x * x - y * y),
          -f * x * (x * x - 3 * y * y)};
}

// The light along a ray, front to back.
struct Light {
  std::array<double, 3> colour{};
  double left = 1;

  // A sample. False: the ray has ended, and takes no more samples.
  bool add(double log_density, const double* rgb, double delta, double least) {
    const double alpha = -std::expm1(-std::exp(log_density) * delta);
    for (size_t c = 0; c < 3; ++c) colour[c] += left * alpha * rgb[c];
    left *= 1 - alpha;
    return !(left < least);
  }
};

}  // namespace fk::reference
