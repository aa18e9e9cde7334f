// SPDX-License-Identifier: Apache-2.0
// Attention in windows with biases from distances, as Swin Transformer V2 has it.
#pragma once
#include "op.hpp"

namespace fk::reference {

// Rows of scratch for WindowAttention's steps, for windows of T tokens.
struct WindowRows {
  double *qkv, *place, *hidden, *table, *biases, *scores, *mask, *heads;
  template <class Init, class Forward>
  WindowRows(Scratch& s, const Init& i, const Forward& args)
      : qkv(s.take(i.window_tokens * 3 * i.num_heads * i.head_dim)),
        place(s.take(2)),
        hidden(s.take(i.place_size)),
        table(s.take(args.places->shape[0] * i.num_heads)),
        biases(s.take(i.num_heads)),
        scores(s.take(i.window_tokens)),
        mask(s.take(i.window_tokens)),
        heads(s.take(i.num_heads * i.head_dim)) {}
};

// rows.table[L, H] = 16 sigmoid(place2 @ relu(place1 @ distance + bias)).
template <class Init, class Weights, class Forward>
void window_biases(const Init& init, const Weights& w, const Forward& args,
                   const WindowRows& rows) {
  for (int64_t l = 0; l < args.places->shape[0]; ++l) {
    load(args.places, offset(args.places, l), 2, rows.place);
    matrix_vector(w.place1, 0, init.place_size, 2, w.place1_bias, rows.place, rows.hidden);
    for (int64_t f = 0; f < init.place_size; ++f) rows.hidden[f] = std::max(rows.hidden[f], 0.0);
    double* bias = rows.table + l * init.num_heads;
    matrix_vector(w.place2, 0, init.num_heads, init.place_size, nullptr, rows.hidden, bias);
    for (int64_t h = 0; h < init.num_heads; ++h) bias[h] = 16 / (1 + std::exp(-bias[h]));
  }
}

// One window, number `number` of all, after window_biases(). source(t, x) loads token t's row into
// x, which has room for C; sink(t, out) gets its projected result in the same memory.
template <class Init, class Weights, class Forward, class Source, class Sink>
void window_attention(const Init& init, const Weights& w, const Forward& args, int64_t number,
                      const WindowRows& rows, double* row, Source source, Sink sink) {
  const int64_t tokens = init.window_tokens, width = init.head_dim, all = init.num_heads * width;
  for (int64_t t = 0; t < tokens; ++t) {
    double* qkv = rows.qkv + t * 3 * all;
    source(t, row);
    matrix_vector(w.qkv, 0, 3 * all, init.hidden_size, w.qkv_bias.or_null, row, qkv);
    for (int64_t h = 0; h < 2 * init.num_heads; ++h) {
      double* head = qkv + h * width;
      double squares = 0;
      for (int64_t d = 0; d < width; ++d) squares += head[d] * head[d];
      const double norm = std::max(std::sqrt(squares), 1e-12);
      for (int64_t d = 0; d < width; ++d) head[d] /= norm;
    }
  }
  for (int64_t t = 0; t < tokens; ++t) {
    std::fill_n(rows.mask, tokens, 0.0);
    if (const fk_in* mask = args.mask.or_null)
      load(mask, offset(mask, number % mask->shape[0], t), tokens, rows.mask);
    std::fill_n(rows.heads, all, 0.0);
    for (int64_t h = 0; h < init.num_heads; ++h) {
      const double* q = rows.qkv + t * 3 * all + h * width;
      const double scale = value(data<float>(w.head_scale)[h]);
      Attention{}(
          0, tokens, rows.scores,
          [&](int64_t j) {
            const double* k = rows.qkv + j * 3 * all + all + h * width;
            double dot = 0;
            for (int64_t d = 0; d < width; ++d) dot += q[d] * k[d];
            const int64_t pair = index<int32_t>(args.pairs, t * tokens + j);
            return scale * dot + rows.table[pair * init.num_heads + h] + rows.mask[j];
          },
          [&](int64_t j, double p) {
            const double* v = rows.qkv + j * 3 * all + 2 * all + h * width;
            for (int64_t d = 0; d < width; ++d) rows.heads[h * width + d] += p * v[d];
          });
    }
    matrix_vector(w.o, 0, init.hidden_size, all, w.o_bias.or_null, rows.heads, row);
    sink(t, row);
  }
}

template <class Weights>
void need_window(const Weights& w) {
  need_floats(w.qkv, w.qkv_bias.or_null, w.place1, w.place1_bias, w.place2, w.o, w.o_bias.or_null);
}

}  // namespace fk::reference
