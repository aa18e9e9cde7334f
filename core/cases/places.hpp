// SPDX-License-Identifier: Apache-2.0
// Where pixels and voxels lie, for the generators of ops that look them up.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "core/tensor/random.hpp"

namespace fk {

// Heights and widths of a pyramid of `count` maps, each about a quarter of the one before and about
// square, that have at most `pixels` together: exactly those of a square image with all its halves.
std::vector<int64_t> pyramid(int64_t pixels, int64_t count);
// Where each map begins among `pixels` rows: in any order, with gaps where there is room.
std::vector<int64_t> pyramid_starts(const std::vector<int64_t>& areas, int64_t pixels,
                                    Random& random);

// Distinct cells (b, z, y, x) of as many grids as `grids` begins with, most of them near a surface,
// as a scanner sees them. There are at least `count`.
std::vector<std::array<int64_t, 4>> surface_cells(int64_t count,
                                                  const std::array<int64_t, 4>& grids,
                                                  Random& random);

}  // namespace fk
