// SPDX-License-Identifier: Apache-2.0
// Self-attention of an encoder, over all tokens of each sequence. The first pass stores q, k and v
// of all tokens in scratch, the second attends token by token.
#pragma once
#include "op.hpp"

namespace fk::reference {

// Rows of scratch (op.hpp) for attend_encoder().
struct EncoderRows {
  double *x, *scores, *mixed, *attended, *qkv;
  template <class Init, class Forward>
  EncoderRows(Scratch& s, const Init& i, const Forward& args)
      : x(s.take(i.hidden_size)),
        scores(s.take(args.x->shape[0])),
        mixed(s.take(i.num_heads * i.head_dim)),
        attended(s.take(i.hidden_size)),
        qkv(s.take(args.x->shape[0] * 3 * i.num_heads * i.head_dim)) {}
};

// before(x[C]) transforms a token's input: a norm, or nothing. Calls then(t, attended[C]) for every
// token; `attended` is attention after its output projection.
template <class Init, class Weights, class Forward, class Before, class Then>
void attend_encoder(const Init& init, const Weights& weights, const Forward& args,
                    const EncoderRows& rows, Before before, Then then) {
  const int64_t channels = init.hidden_size, width = init.head_dim, all = init.num_heads * width;
  for (int64_t t = 0; t < args.x->shape[0]; ++t) {
    load(args.x, offset(args.x, t), channels, rows.x);
    before(rows.x);
    matrix_vector(weights.qkv, 0, 3 * all, channels, weights.qkv_bias.or_null, rows.x,
                  rows.qkv + t * 3 * all);
  }
  for (int64_t b = 0; b + 1 < args.cu_seqlens->shape[0]; ++b) {
    const int64_t first = index<int32_t>(args.cu_seqlens, b);
    const int64_t last = index<int32_t>(args.cu_seqlens, b + 1);
    for (int64_t t = first; t < last; ++t) {
      std::fill_n(rows.mixed, all, 0.0);
      for (int64_t h = 0; h < init.num_heads; ++h) {
        const double* q = rows.qkv + t * 3 * all + h * width;
        double* out = rows.mixed + h * width;
        const auto key = [&](int64_t j) { return rows.qkv + (3 * j + 1) * all + h * width; };
        Attention attention{.scale = init.scale, .position = t};
        if constexpr (requires { weights.distance_bias; })
          attention.look_up(weights.distance_bias.or_null, h);
        attention(
            first, last, rows.scores, [&](int64_t j) { return dot(q, key(j), width); },
            [&](int64_t j, double p) {
              for (int64_t d = 0; d < width; ++d) out[d] += p * key(j)[all + d];
            });
      }
      matrix_vector(weights.o, 0, channels, all, weights.o_bias.or_null, rows.mixed, rows.attended);
      then(t, rows.attended);
    }
  }
}

}  // namespace fk::reference
