// SPDX-License-Identifier: Apache-2.0
// Attention of an image's tokens over all of them, as layers of vision transformers have it.
#pragma once
#include "op.hpp"

namespace fk::reference {

// x[i] = x[i] * cos[i] + turned(x)[i] * sin[i] on `width` channels, where turned() swaps the halves
// or, if `interleaved`, neighbours, and the first of a pair becomes negative. `row` has room for
// `width`, cos and sin are the tables' rows.
inline void turn(double* x, int64_t width, bool interleaved, const double* cos, const double* sin,
                 double* row) {
  const int64_t step = interleaved ? 1 : width / 2;
  for (int64_t i = 0; i < width; ++i) {
    const bool first = interleaved ? i % 2 == 0 : i < step;
    row[i] = x[i] * cos[i] + (first ? -x[i + step] : x[i - step]) * sin[i];
  }
  std::copy_n(row, width, x);
}

// Rows of scratch for image_attention(), for T tokens.
struct ImageAttentionRows {
  double *qkv, *cos, *sin, *turned, *scores, *mask, *heads;
  template <class Init>
  ImageAttentionRows(Scratch& s, const Init& i, int64_t tokens)
      : qkv(s.take(tokens * 3 * i.num_heads * i.head_dim)),
        cos(s.take(i.rotary_dim)),
        sin(s.take(i.rotary_dim)),
        turned(s.take(i.rotary_dim)),
        scores(s.take(tokens)),
        mask(s.take(tokens)),
        heads(s.take(i.num_heads * i.head_dim)) {}
};

// Attention of image b, whose tokens' normed inputs are x [T, C]. sink(t, out) gets each token's
// projected result, in `out` with room for C.
template <class Init, class Weights, class Forward, class Sink>
void image_attention(const Init& init, const Weights& w, const Forward& args, int64_t b,
                     const double* x, const ImageAttentionRows& rows, double* out, Sink sink) {
  const int64_t tokens = args.x->shape[1], channels = init.hidden_size, width = init.head_dim;
  const int64_t all = init.num_heads * width;
  for (int64_t t = 0; t < tokens; ++t) {
    double* qkv = rows.qkv + t * 3 * all;
    matrix_vector(w.qkv, 0, 3 * all, channels, w.qkv_bias.or_null, x + t * channels, qkv);
    const fk_in *cos = args.cos.or_null, *sin = args.sin.or_null;
    if (!cos) continue;
    load(cos, offset(cos, t % cos->shape[0]), init.rotary_dim, rows.cos);
    load(sin, offset(sin, t % sin->shape[0]), init.rotary_dim, rows.sin);
    for (int64_t h = 0; h < 2 * init.num_heads; ++h)
      turn(qkv + h * width, init.rotary_dim, init.interleaved != 0, rows.cos, rows.sin,
           rows.turned);
  }
  for (int64_t t = 0; t < tokens; ++t) {
    std::fill_n(rows.mask, tokens, 0.0);
    if (const fk_in* mask = args.mask.or_null)
      load(mask, offset(mask, b % mask->shape[0], t % mask->shape[1]), tokens, rows.mask);
    std::fill_n(rows.heads, all, 0.0);
    for (int64_t h = 0; h < init.num_heads; ++h) {
      const double* q = rows.qkv + t * 3 * all + h * width;
      Attention{}(
          0, tokens, rows.scores,
          [&](int64_t j) {
            const double* k = rows.qkv + j * 3 * all + all + h * width;
            double dot = 0;
            for (int64_t d = 0; d < width; ++d) dot += q[d] * k[d];
            return init.scale * dot + rows.mask[j];
          },
          [&](int64_t j, double p) {
            const double* v = rows.qkv + j * 3 * all + 2 * all + h * width;
            for (int64_t d = 0; d < width; ++d) rows.heads[h * width + d] += p * v[d];
          });
    }
    matrix_vector(w.o, 0, channels, all, w.o_bias.or_null, rows.heads, out);
    sink(t, out);
  }
}

template <class Init>
void need_image_attention(const Init& init) {
  if (init.rotary_dim % 2) throw unsupported{"rotary_dim: odd"};
  if (init.rotary_dim > init.head_dim && init.rotary_dim != 2)
    throw unsupported{"rotary_dim: beyond the head"};
}

}  // namespace fk::reference
