// SPDX-License-Identifier: Apache-2.0
// silu_and_mul in bfloat16 on the CPU, as plain as it can be, and the values that it is timed on.
#pragma once
#include <cmath>
#include <cstdint>

#include "fk/cpp/floats.hpp"

namespace known {

// Rows of `width` gates and `width` ups.
inline void silu(const uint16_t* x, uint16_t* out, int64_t rows, int64_t width) {
  for (int64_t row = 0; row < rows; ++row, x += 2 * width, out += width)
    for (int64_t i = 0; i < width; ++i) {
      const float gate = fk::from_bf16(x[i]), up = fk::from_bf16(x[width + i]);
      out[i] = fk::to_bf16(gate / (1 + std::exp(-gate)) * up);
    }
}

// About normal, as known.cuh makes them.
inline void values(uint16_t* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint64_t bits = (static_cast<uint64_t>(i) + 1) * 0x9e3779b97f4a7c15u;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
    bits ^= bits >> 27;
    float sum = 0;
    for (int k = 0; k < 4; ++k) sum += static_cast<float>(bits >> (16 * k) & 0xffff) / 65536 - 0.5f;
    to[i] = fk::to_bf16(sum * 1.7320508f);
  }
}

}  // namespace known
