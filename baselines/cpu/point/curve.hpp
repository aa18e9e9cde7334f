// SPDX-License-Identifier: Apache-2.0
// Codes of cells on curves through space, and sorted rows.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>

#include "op.hpp"

namespace fk::cpu {

inline constexpr int64_t kNoCode = std::numeric_limits<int64_t>::max();

// Two zero bits between each two of the lowest 21.
inline uint64_t spread_bits(uint64_t v) {
  v &= 0x1fffff;
  v = (v | v << 32) & 0x1f00000000ffff;
  v = (v | v << 16) & 0x1f0000ff0000ff;
  v = (v | v << 8) & 0x100f00f00f00f00f;
  v = (v | v << 4) & 0x10c30c30c30c30c3;
  return (v | v << 2) & 0x1249249249249249;
}
inline int64_t interleave(const uint32_t* at, int64_t depth) {
  const uint32_t mask = (1U << depth) - 1;
  return static_cast<int64_t>(spread_bits(at[0] & mask) << 2 | spread_bits(at[1] & mask) << 1 |
                              spread_bits(at[2] & mask));
}
// Changes `at`.
inline int64_t hilbert(uint32_t* at, int64_t depth) {
  for (int64_t bit = depth - 1; bit > 0; --bit) {
    const uint32_t below = (1U << bit) - 1;
    for (int c = 0; c < 3; ++c) {
      const uint32_t both = (at[0] ^ at[c]) & below;
      if (at[c] >> bit & 1) {
        at[0] ^= below;
      } else {
        at[0] ^= both;
        at[c] ^= both;
      }
    }
  }
  auto code = static_cast<uint64_t>(interleave(at, depth));
  for (int shift = 1; shift < 64; shift *= 2) code ^= code >> shift;  // sums of higher bits
  return static_cast<int64_t>(code);
}

// rows[n] becomes the indices of keys in ascending order; equal keys keep theirs.
inline void sort_by(const int64_t* keys, int64_t n, int32_t* rows) {
  for (int64_t i = 0; i < n; ++i) rows[i] = static_cast<int32_t>(i);
  std::sort(rows, rows + n, [keys](int32_t a, int32_t b) {
    return keys[a] != keys[b] ? keys[a] < keys[b] : a < b;
  });
}

}  // namespace fk::cpu
