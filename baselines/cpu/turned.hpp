// SPDX-License-Identifier: Apache-2.0
// Transposed copies of matrices, for products whose library wants rows. Compiled in the generic
// pass only.
#pragma once
#include "op.hpp"

namespace fk::cpu {

inline constexpr int64_t kTurnedTile = 32;  // rows and columns which stay in the first-level cache

// to[j * to_stride + i] = from[i * from_stride + j] for rows [0, rows) and columns [begin, end).
template <class T>
void turn(const T* from, int64_t from_stride, int64_t rows, int64_t begin, int64_t end, T* to,
          int64_t to_stride) {
  for (int64_t r = 0; r < rows; r += kTurnedTile) {
    const int64_t last = std::min(rows, r + kTurnedTile);
    for (int64_t j = begin; j < end; ++j)
      for (int64_t i = r; i < last; ++i) to[j * to_stride + i] = from[i * from_stride + j];
  }
}

// `to` [columns, stride] is `from` [rows, columns] transposed, with zeros behind each row.
inline void turn_all(int threads, const void* from, int64_t rows, int64_t columns, int bytes,
                     void* to, int64_t stride) {
  const int64_t blocks = (columns + kTurnedTile - 1) / kTurnedTile;
  const auto part = [&](auto* out, const auto* in, int64_t block) {
    const int64_t begin = block * kTurnedTile, end = std::min(columns, begin + kTurnedTile);
    turn(in, columns, rows, begin, end, out, stride);
    for (int64_t j = begin; rows < stride && j < end; ++j)
      std::fill(out + j * stride + rows, out + (j + 1) * stride, 0);
  };
  split(threads, blocks, rows * columns * bytes * 4, [&](int64_t first, int64_t last, int) {
    for (int64_t b = first; b < last; ++b) {
      if (bytes == 4)
        part(static_cast<uint32_t*>(to), static_cast<const uint32_t*>(from), b);
      else
        part(static_cast<uint16_t*>(to), static_cast<const uint16_t*>(from), b);
    }
  });
}

}  // namespace fk::cpu
