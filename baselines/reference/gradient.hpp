// SPDX-License-Identifier: Apache-2.0
// Steps of gradients which several ops share, on rows of doubles.
#pragma once
#include "math.hpp"

namespace fk::reference {

// x has a gate, then up, each of `width` elements. It becomes the gradient of both, where grad
// [width] is that of silu(gate) * up.
inline void silu_halves_backward(double* x, int64_t width, const double* grad) {
  for (int64_t i = 0; i < width; ++i) {
    const double gate = x[i], up = x[width + i], s = 1 / (1 + std::exp(-gate));
    x[i] = grad[i] * up * s * (1 + gate * (1 - s));
    x[width + i] = grad[i] * gate * s;
  }
}

// out[columns] = x[rows] @ matrix, where the matrix [rows, columns] begins at element `at`.
inline void vector_matrix(const double* x, const fk_in* matrix, int64_t at, int64_t rows,
                          int64_t columns, double* out) {
  std::fill_n(out, columns, 0.0);
  for (int64_t r = 0; r < rows; ++r) add_scaled(matrix, at + r * columns, columns, x[r], out);
}

}  // namespace fk::reference
