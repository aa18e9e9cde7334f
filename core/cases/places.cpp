// SPDX-License-Identifier: Apache-2.0
#include "core/cases/places.hpp"

#include <cmath>
#include <numeric>
#include <set>

#include "core/cases/shuffle.hpp"

namespace fk {

std::vector<int64_t> pyramid(int64_t pixels, int64_t count) {
  std::vector<int64_t> out;
  const int64_t all = ((int64_t{1} << 2 * count) - 1) / 3;  // 1 + 4 + 16 ...
  for (int64_t i = 0; i < count; ++i) {
    const int64_t area = pixels * (int64_t{1} << 2 * (count - 1 - i)) / all;
    const auto high = static_cast<int64_t>(std::sqrt(static_cast<double>(area)));
    out.push_back(high);
    out.push_back(high ? area / high : 0);
  }
  return out;
}

std::vector<int64_t> pyramid_starts(const std::vector<int64_t>& areas, int64_t pixels,
                                    Random& random) {
  std::vector<int64_t> out(areas.size());
  int64_t room = pixels - std::accumulate(areas.begin(), areas.end(), int64_t{0}), at = 0;
  for (const int64_t map : permutation(static_cast<int64_t>(areas.size()), random)) {
    const int64_t gap = random.integer(0, room + 1);
    room -= gap;
    out[static_cast<size_t>(map)] = at + gap;
    at += gap + areas[static_cast<size_t>(map)];
  }
  return out;
}

std::vector<std::array<int64_t, 4>> surface_cells(int64_t count,
                                                  const std::array<int64_t, 4>& grids,
                                                  Random& random) {
  const auto [batch, d, h, w] = grids;
  std::set<std::array<int64_t, 4>> known;
  std::vector<std::array<int64_t, 4>> out;
  for (int64_t tries = 0; static_cast<int64_t>(out.size()) < count; ++tries) {
    const int64_t y = random.integer(0, h), x = random.integer(0, w), b = random.integer(0, batch);
    // If the surface is full: anywhere.
    const int64_t z =
        tries < 4 * count ? ((x + 2 * y) / 7 + random.integer(0, 3)) % d : random.integer(0, d);
    if (known.insert({b, z, y, x}).second) out.push_back({b, z, y, x});
  }
  return out;
}

}  // namespace fk
