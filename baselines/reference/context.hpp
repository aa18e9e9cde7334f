// SPDX-License-Identifier: Apache-2.0
// Attention of an image's tokens over the tokens of a context, and the gated MLP of diffusers'
// transformers.
#pragma once
#include "math.hpp"

namespace fk::reference {

// The sizes and weights of one attention; biases may be null.
struct ContextAttention {
  int64_t channels, context_channels, heads, width;
  double scale;
  const fk_in *q, *q_bias, *kv, *kv_bias, *o, *o_bias;

  int64_t all() const { return heads * width; }
  // Doubles of scratch for contexts of `keys` tokens.
  int64_t scratch(int64_t keys) const { return keys * (2 * all() + 1) + 2 * all(); }

  // Attention of x [tokens, C] over context [keys, E]. sink(t, out) gets each token's projected
  // result, in `out` with room for C. `rows` has scratch(keys) doubles.
  template <class Sink>
  void operator()(const double* x, int64_t tokens, const double* context, int64_t keys,
                  double* rows, double* out, Sink sink) const {
    double *kv_rows = rows, *scores = rows + keys * 2 * all(), *query = scores + keys;
    double* mixed = query + all();
    for (int64_t j = 0; j < keys; ++j)
      matrix_vector(kv, 0, 2 * all(), context_channels, kv_bias, context + j * context_channels,
                    kv_rows + j * 2 * all());
    for (int64_t t = 0; t < tokens; ++t) {
      matrix_vector(q, 0, all(), channels, q_bias, x + t * channels, query);
      std::fill_n(mixed, all(), 0.0);
      for (int64_t h = 0; h < heads; ++h) {
        const double *own = query + h * width, *first = kv_rows + h * width;
        Attention{}(
            0, keys, scores,
            [&](int64_t j) {
              const double* k = first + j * 2 * all();
              double dot = 0;
              for (int64_t d = 0; d < width; ++d) dot += own[d] * k[d];
              return scale * dot;
            },
            [&](int64_t j, double p) {
              const double* v = first + j * 2 * all() + all();
              for (int64_t d = 0; d < width; ++d) mixed[h * width + d] += p * v[d];
            });
      }
      matrix_vector(o, 0, channels, all(), o_bias, mixed, out);
      sink(t, out);
    }
  }
};

// out[C] = fc2 @ (gelu(gate) * up) + its bias, where [gate; up] = fc1 @ x + its bias. `hidden` has
// room for 2 * width. Biases may be null.
struct GegluWeights {
  int64_t channels, width;
  bool tanh_form;
  const fk_in *fc1, *fc1_bias, *fc2, *fc2_bias;

  void operator()(const double* x, double* hidden, double* out) const {
    matrix_vector(fc1, 0, 2 * width, channels, fc1_bias, x, hidden);
    for (int64_t i = 0; i < width; ++i) hidden[i] = gelu(hidden[i], tanh_form) * hidden[width + i];
    matrix_vector(fc2, 0, channels, width, fc2_bias, hidden, out);
  }
};

}  // namespace fk::reference
