// SPDX-License-Identifier: Apache-2.0
// Products with f8e4m3 weights that have a scale per block, and the MLPs and experts made of them.
// The input may be rounded to f8e4m3, too. The contract of linear_fp8_block defines the arithmetic;
// layers with such weights use it.
#pragma once
#include "op.hpp"

namespace fk::reference {

struct Fp8Block {
  int64_t rows, columns;  // of a block
  bool quantize_input;
};

// Rounds every group of `width` values to f8e4m3 multiples of a unit. The unit is the least power
// of two with which the group's largest value is at most 448, the largest f8e4m3.
inline void quantize_groups(double* x, int64_t count, int64_t width) {
  for (int64_t first = 0; first < count; first += width) {
    const int64_t last = std::min(count, first + width);
    double top = 1e-10;  // a group of zeros, too, has a unit
    for (int64_t i = first; i < last; ++i) top = std::max(top, std::fabs(x[i]));
    int exponent;
    const double fraction = std::frexp(top, &exponent);  // top = fraction * 2^exponent
    const double unit = std::ldexp(1.0, exponent - 9 + (fraction > 448.0 / 512 ? 1 : 0));
    // f8e4m3 has 4 significant bits, and its smallest step is 2^-9.
    for (int64_t i = first; i < last; ++i) x[i] = rounded(x[i] / unit, 4, -9) * unit;
  }
}

// out[n] = sum over k of weight[at + n * columns + k] * scale[block of n, k] * x[k] + bias[n]. The
// matrix's scales begin at `scale_at`. `quantized` has room for `columns`. Without scales it is
// matrix_vector().
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

// A matrix that begins at an offset of its view, with scales or without.
struct Matrix {
  const fk_in *weight, *scale_or_null;
  int64_t at, scale_at;
};
inline Matrix matrix_of(const fk_in* weight, fk_opt_in scale) {
  return {weight, scale.or_null, 0, 0};
}
// The matrix of one expert.
inline Matrix matrix_of(const fk_in* weight, fk_opt_in scale, int64_t expert) {
  return {weight, scale.or_null, offset(weight, expert),
          scale.or_null ? offset(scale.or_null, expert) : 0};
}
// The block of a contract; {1, 1, false} for contracts without scales.
template <class Init>
Fp8Block block_of(const Init& init) {
  if constexpr (requires { init.block_n; })
    return {init.block_n, init.block_k, init.quantize_input != 0};
  return {1, 1, false};
}
// out[rows] = m @ x[columns]; `quantized` has room for `columns`.
inline void project(const Matrix& m, const Fp8Block& block, int64_t rows, int64_t columns,
                    const double* x, double* quantized, double* out) {
  scaled_matrix_vector(m.weight, m.at, m.scale_or_null, m.scale_at, block, rows, columns, nullptr,
                       x, quantized, out);
}

// Scratch for a gated MLP of `width`, and for a sum of several.
struct GatedRows {
  double *hidden, *quantized, *part;
  GatedRows(Scratch& s, int64_t channels, int64_t width)
      : hidden(s.take(2 * width)),
        quantized(s.take(std::max(channels, width))),
        part(s.take(channels)) {}
};
// out[C] = down @ (silu(gate) * up), where [gate; up] = gate_up @ x
inline void gated_mlp(const Matrix& gate_up, const Matrix& down, const Fp8Block& block,
                      int64_t channels, int64_t width, const double* x, const GatedRows& row,
                      double* out) {
  project(gate_up, block, 2 * width, channels, x, row.quantized, row.hidden);
  for (int64_t i = 0; i < width; ++i) row.hidden[i] = silu(row.hidden[i]) * row.hidden[width + i];
  project(down, block, channels, width, row.hidden, row.quantized, out);
}
// out[C] = sum over the chosen experts of weight * gated MLP. Only some contracts have scales,
// biases of the experts or another activation; `requires` finds these fields by name at compile
// time.
template <class Init, class Weights>
void experts_sum(const Init& init, const Weights& w, const double* weights, const int32_t* ids,
                 const double* x, const GatedRows& row, double* out) {
  const int64_t channels = init.hidden_size, width = init.intermediate_size;
  const auto product = [&](const fk_in* weight, fk_opt_in scale, fk_opt_in bias, int64_t expert,
                           int64_t rows, int64_t columns, const double* from, double* to) {
    project(matrix_of(weight, scale, expert), block_of(init), rows, columns, from, row.quantized,
            to);
    if (bias.or_null) add_scaled(bias.or_null, offset(bias.or_null, expert), rows, 1, to);
  };
  fk_opt_in scale13{}, scale2{}, bias13{}, bias2{};
  if constexpr (requires { w.w13_scale_inv; }) scale13 = w.w13_scale_inv, scale2 = w.w2_scale_inv;
  if constexpr (requires { w.w13_bias; }) bias13 = w.w13_bias, bias2 = w.w2_bias;
  int64_t activation = 0;  // silu, swiglu_oai, gelu_tanh
  if constexpr (requires { init.activation; }) activation = init.activation;
  experts_sum(
      channels, init.top_k, weights, ids, x, row.hidden, row.part, out,
      [&](int64_t e, const double* from, double* to) {
        product(w.w13, scale13, bias13, e, 2 * width, channels, from, to);
      },
      [&](double* h) {
        if (activation == 0) return silu_halves(h, width);
        if (activation == 1) return swiglu_pairs(h, width);
        for (int64_t i = 0; i < width; ++i) h[i] = gelu(h[i], true) * h[width + i];
      },
      [&](int64_t e, const double* from, double* to) {
        product(w.w2, scale2, bias2, e, channels, width, from, to);
      });
}

// Refuses weights whose element type is none of f32, bf16, f16 and f8e4m3. Null views are absent
// fields.
template <class... Views>
void need_weights(const Views*... views) {
  const auto check = [](const fk_in* view) {
    if (view) with_weight_type(view, [](auto) {});
  };
  (check(views), ...);
}

}  // namespace fk::reference
