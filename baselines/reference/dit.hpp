// SPDX-License-Identifier: Apache-2.0
// Parts of a diffusion transformer's layers: attention over the tokens of one stream or two, and
// norms which an embedded time modulates.
#pragma once
#include "vit.hpp"

namespace fk::reference {

// Rows of scratch for all tokens of an image.
struct StreamRows {
  double *qkv, *weight, *cos, *sin, *turned, *scores, *mask, *mixed;
  template <class Init>
  StreamRows(Scratch& s, const Init& i, int64_t tokens)
      : qkv(s.take(tokens * 3 * i.num_heads * i.head_dim)),
        weight(s.take(i.head_dim)),
        cos(s.take(i.rotary_dim)),
        sin(s.take(i.rotary_dim)),
        turned(s.take(i.rotary_dim)),
        scores(s.take(tokens)),
        mask(s.take(tokens)),
        mixed(s.take(i.num_heads * i.head_dim)) {}
};

// The projection of a stream, and its norms of heads, which may be null.
struct StreamWeights {
  const fk_in *qkv, *qkv_bias, *q_norm, *k_norm;
};

// Queries, keys and values of the tokens [first, first + count) of an image, whose inputs are x
// [count, C].
template <class Init, class Forward>
void project_stream(const Init& init, const Forward& args, const StreamWeights& w, const double* x,
                    int64_t first, int64_t count, const StreamRows& rows) {
  const int64_t width = init.head_dim, all = init.num_heads * width;
  for (int64_t t = 0; t < count; ++t) {
    double* qkv = rows.qkv + (first + t) * 3 * all;
    matrix_vector(w.qkv, 0, 3 * all, init.hidden_size, w.qkv_bias, x + t * init.hidden_size, qkv);
    for (int64_t h = 0; w.q_norm && h < 2 * init.num_heads; ++h)
      rms_normalize(qkv + h * width, width, init.eps, h < init.num_heads ? w.q_norm : w.k_norm,
                    rows.weight);
    const fk_in *cos = args.cos.or_null, *sin = args.sin.or_null;
    if (!cos) continue;
    load(cos, offset(cos, (first + t) % cos->shape[0]), init.rotary_dim, rows.cos);
    load(sin, offset(sin, (first + t) % sin->shape[0]), init.rotary_dim, rows.sin);
    for (int64_t h = 0; h < 2 * init.num_heads; ++h)
      turn(qkv + h * width, init.rotary_dim, init.interleaved != 0, rows.cos, rows.sin,
           rows.turned);
  }
}

// Attention of all tokens of image b. sink(t, mixed) gets the heads' results of token t, [H * D].
template <class Init, class Forward, class Sink>
void attend_streams(const Init& init, const Forward& args, int64_t b, int64_t tokens,
                    const StreamRows& rows, Sink sink) {
  const int64_t width = init.head_dim, all = init.num_heads * width;
  for (int64_t t = 0; t < tokens; ++t) {
    std::fill_n(rows.mask, tokens, 0.0);
    if (const fk_in* mask = args.mask.or_null)
      load(mask, offset(mask, b % mask->shape[0], t % mask->shape[1]), tokens, rows.mask);
    std::fill_n(rows.mixed, all, 0.0);
    for (int64_t h = 0; h < init.num_heads; ++h) {
      const double *q = rows.qkv + t * 3 * all + h * width, *keys = rows.qkv + all + h * width;
      Attention{}(
          0, tokens, rows.scores,
          [&](int64_t j) {
            const double* k = keys + j * 3 * all;
            double dot = 0;
            for (int64_t d = 0; d < width; ++d) dot += q[d] * k[d];
            return init.scale * dot + rows.mask[j];
          },
          [&](int64_t j, double p) {
            const double* v = keys + j * 3 * all + all;
            for (int64_t d = 0; d < width; ++d) rows.mixed[h * width + d] += p * v[d];
          });
    }
    sink(t, rows.mixed);
  }
}

// Joint attention of image b: rows [0, S) of `tokens` are the text's inputs, the others the
// image's. sink(t, out) gets each projected result, in `out` with room for C.
template <class Init, class Weights, class Forward, class Sink>
void joint_attention_of(const Init& init, const Weights& w, const Forward& args, int64_t b,
                        const double* tokens, const StreamRows& rows, double* out, Sink sink) {
  const int64_t text = args.context->shape[1], image = args.x->shape[1];
  project_stream(
      init, args,
      {w.context_qkv, w.context_qkv_bias, w.context_q_norm.or_null, w.context_k_norm.or_null},
      tokens, 0, text, rows);
  project_stream(init, args, {w.qkv, w.qkv_bias, w.q_norm.or_null, w.k_norm.or_null},
                 tokens + text * init.hidden_size, text, image, rows);
  attend_streams(init, args, b, text + image, rows, [&](int64_t t, const double* mixed) {
    const bool of_text = t < text;
    matrix_vector(of_text ? w.context_o : w.o, 0, init.hidden_size, init.num_heads * init.head_dim,
                  of_text ? w.context_o_bias : w.o_bias, mixed, out);
    sink(t, out);
  });
}

// Vectors [count, C] from the embedded time of image b: out = weight @ silu(temb) + bias. `row` has
// room for C.
template <class Forward>
void modulation_of(const Forward& args, int64_t b, int64_t channels, int64_t count,
                   const fk_in* weight, const fk_in* bias, double* row, double* out) {
  load(args.temb, offset(args.temb, b), channels, row);
  for (int64_t c = 0; c < channels; ++c) row[c] = silu(row[c]);
  matrix_vector(weight, 0, count * channels, channels, bias, row, out);
}

// out = norm(x) * (1 + scale) + shift, all [C], where `shift` has the scale behind it.
inline void norm_modulated(const double* x, int64_t channels, double eps, const double* shift,
                           double* row, double* out) {
  std::copy_n(x, channels, out);
  layer_normalize(out, channels, eps, nullptr, nullptr, row);
  for (int64_t c = 0; c < channels; ++c) out[c] = out[c] * (1 + shift[channels + c]) + shift[c];
}

}  // namespace fk::reference
