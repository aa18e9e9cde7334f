// SPDX-License-Identifier: Apache-2.0
// Places in space, as pictures of structures and clouds show them.
#pragma once
#include <array>
#include <vector>

#include "core/exec/picture.hpp"

namespace fk {

using Places = std::vector<std::array<double, 3>>;

// The places of a result [places, 3]; none if a number is not finite.
Places places_of(const NamedTensor& tensor);
// Moves and turns `places` to `onto`, as many places, without a mirror. The sum of the squares of
// their distances is then the least one (Horn 1987).
Places superposed(const Places& places, const Places& onto);
double distance_of(const std::array<double, 3>& a, const std::array<double, 3>& b);

// The plane of the two longest axes of some places, as a frame of 1000 units across.
class PlaceFrame {
 public:
  explicit PlaceFrame(const Places& shown);
  Drawing empty_drawing() const { return {.width = kWidth, .height = height_}; }
  // x and y of every `step`-th place.
  std::vector<int64_t> at(const Places& places, int64_t step = 1) const;

 private:
  static constexpr int64_t kWidth = 1000, kEdge = 30;
  std::array<double, 3> centre_{}, across_{}, down_{};
  double scale_ = 1;
  int64_t height_ = kWidth;
};

}  // namespace fk
