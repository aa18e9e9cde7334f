// SPDX-License-Identifier: Apache-2.0
// Cells of point clouds on curves through space, and convolutions over neighbours.
#pragma once
#include "op.hpp"

namespace fk::reference {

inline constexpr int64_t kNoCode = std::numeric_limits<int64_t>::max();

// Bits of three coordinates in turns, the first axis highest.
inline int64_t interleaved(const std::array<uint32_t, 3>& at, int64_t depth) {
  int64_t code = 0;
  for (int64_t bit = depth; bit-- > 0;)
    for (const uint32_t c : at) code = code << 1 | static_cast<int64_t>(c >> bit & 1);
  return code;
}

// The place on Hilbert's curve, by Skilling's transform of the axes.
inline int64_t hilbert(std::array<uint32_t, 3> at, int64_t depth) {
  const uint32_t top = 1U << (depth - 1);
  for (uint32_t q = top; q > 1; q >>= 1) {
    const uint32_t below = q - 1;
    for (uint32_t& c : at) {
      if (c & q) {
        at[0] ^= below;
      } else {
        const uint32_t both = (at[0] ^ c) & below;
        at[0] ^= both;
        c ^= both;
      }
    }
  }
  at[1] ^= at[0];
  at[2] ^= at[1];
  uint32_t flips = 0;
  for (uint32_t q = top; q > 1; q >>= 1)
    if (at[2] & q) flips ^= q - 1;
  for (uint32_t& c : at) c ^= flips;
  return interleaved(at, depth);
}

// Adds the sum over offsets of weight[o, k] @ x[table[k, t]] to out [O]; `row` has room for C.
inline void add_sparse_conv(const fk_in* weight, const fk_in* table, const fk_in* x, int64_t t,
                            double* row, double* out) {
  const int64_t outputs = weight->shape[0], offsets = weight->shape[1], channels = weight->shape[2];
  for (int64_t k = 0; k < offsets; ++k) {
    const int64_t from = data<int32_t>(table)[k * table->shape[1] + t];
    if (from < 0) continue;
    load(x, offset(x, from), channels, row);
    for (int64_t o = 0; o < outputs; ++o)
      out[o] += dot_view(weight, (o * offsets + k) * channels, row, channels);
  }
}

}  // namespace fk::reference
