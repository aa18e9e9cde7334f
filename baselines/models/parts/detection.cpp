// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/detection.hpp"

#include <algorithm>
#include <cmath>

namespace fk::parts {

std::vector<double> sines_of_pixels(int64_t tokens, int64_t channels, double theta) {
  const auto side = std::lround(std::sqrt(static_cast<double>(tokens)));
  const int64_t each = channels / 4;
  std::vector<double> all;
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t c = 0; c < channels; ++c) {
      const auto place = static_cast<double>(c < 2 * each ? t / side : t % side);
      const double share = static_cast<double>(c % each) / static_cast<double>(each);
      const double angle = place / std::pow(theta, share);
      all.push_back(c / each % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  return all;
}

AnchorBoxes anchor_boxes(const std::vector<int64_t>& sides) {
  constexpr double kMargin = 0.01;
  // Its sigmoid is 1, and half floats have it.
  constexpr double kOutside = 1e4;
  AnchorBoxes boxes;
  double size = 0.05;
  for (const int64_t side : sides) {
    const auto wide = static_cast<double>(side);
    for (int64_t i = 0; i < side * side; ++i) {
      const double box[] = {(static_cast<double>(i % side) + 0.5) / wide,
                            (static_cast<double>(i / side) + 0.5) / wide, size, size};
      const bool inside =
          std::ranges::all_of(box, [](double v) { return v > kMargin && v < 1 - kMargin; });
      boxes.inside.push_back(inside ? 1 : 0);
      for (const double v : box) boxes.logits.push_back(inside ? std::log(v / (1 - v)) : kOutside);
    }
    size *= 2;
  }
  return boxes;
}

}  // namespace fk::parts
