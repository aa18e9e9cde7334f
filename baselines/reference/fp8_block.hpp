// SPDX-License-Identifier: Apache-2.0
// Weights of which every block has a scale, and rows that are rounded to f8e4m3 before they meet
// them. linear_fp8_block says what is computed; the layers with such weights use it too.
#pragma once
#include "op.hpp"

namespace fk::reference {

struct Fp8Block {
  int64_t rows, columns;  // of a block
  bool quantize_input;
};

// Every group of `width` values becomes what f8e4m3 holds of it in units of a power of two.
inline void quantize_groups(double* x, int64_t count, int64_t width) {
  for (int64_t first = 0; first < count; first += width) {
    const int64_t last = std::min(count, first + width);
    double top = 1e-10;
    for (int64_t i = first; i < last; ++i) top = std::max(top, std::fabs(x[i]));
    int exponent;
    const double fraction = std::frexp(top, &exponent);  // top = fraction * 2^exponent
    const double unit = std::ldexp(1.0, exponent - 9 + (fraction > 448.0 / 512 ? 1 : 0));
    for (int64_t i = first; i < last; ++i) x[i] = rounded(x[i] / unit, 4, -9) * unit;
  }
}

// out[n] = sum over k of weight[at + n * columns + k] * scale[...] * x[k] + bias[n]. `scale_at` is
// where the matrix has its scales. Without scales it is matrix_vector, whatever the block.
inline void scaled_matrix_vector(const fk_in* weight, int64_t at, const fk_in* scale_or_null,
                                 int64_t scale_at, const Fp8Block& block, int64_t rows,
                                 int64_t columns, const fk_in* bias_or_null, const double* x,
                                 double* quantized, double* out) {
  if (!scale_or_null) return matrix_vector(weight, at, rows, columns, bias_or_null, x, out);
  std::copy_n(x, columns, quantized);
  if (block.quantize_input) quantize_groups(quantized, columns, block.columns);
  const int64_t across = (columns + block.columns - 1) / block.columns;
  if (bias_or_null)
    load(bias_or_null, 0, rows, out);
  else
    std::fill_n(out, rows, 0.0);
  for (int64_t n = 0; n < rows; ++n) {
    const float* scales = data<float>(scale_or_null) + scale_at + n / block.rows * across;
    for (int64_t b = 0; b < across; ++b) {
      const int64_t first = b * block.columns, count = std::min(block.columns, columns - first);
      out[n] +=
          value(scales[b]) * dot_view(weight, at + n * columns + first, quantized + first, count);
    }
  }
}

}  // namespace fk::reference
