// SPDX-License-Identifier: Apache-2.0
// Tables of detectors whose queries are pixels of several maps.
#pragma once
#include <cstdint>
#include <vector>

namespace fk::parts {

// [tokens, channels] of a square map: sine and cosine of each pixel's row, then of its column, a
// quarter of the channels each. Channel i of a quarter of n has the angle place / theta^(i/n).
std::vector<double> sines_of_pixels(int64_t tokens, int64_t channels, double theta);

// A box around each pixel of the square maps with these sides. It has a twentieth of the image on
// the first map, and twice the size on each next map.
struct AnchorBoxes {
  std::vector<double> logits;  // [S, 4] of centre and size; large where the box is not inside
  std::vector<double> inside;  // [S]: 1, or 0 where a number is within 0.01 of 0 or 1
};
AnchorBoxes anchor_boxes(const std::vector<int64_t>& sides);

}  // namespace fk::parts
