// SPDX-License-Identifier: Apache-2.0
// Positions of pixels and voxels, for the generators of ops that look them up.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "core/tensor/random.hpp"

namespace fk {

// Heights and widths of a pyramid of `count` roughly square maps, each about a quarter of the one
// before, with at most `pixels` together. For a square image with all its halves the result is
// exact.
std::vector<int64_t> pyramid(int64_t pixels, int64_t count);
// First row of each map among `pixels` rows: in any order, with gaps if there is room.
std::vector<int64_t> pyramid_starts(const std::vector<int64_t>& areas, int64_t pixels,
                                    Random& random);

// At least `count` distinct cells (b, z, y, x) of grids[0] grids, mostly near a surface, as from a
// scanner.
std::vector<std::array<int64_t, 4>> surface_cells(int64_t count,
                                                  const std::array<int64_t, 4>& grids,
                                                  Random& random);

}  // namespace fk
