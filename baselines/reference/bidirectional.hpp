// SPDX-License-Identifier: Apache-2.0
// Self-attention without a cache or a mask, in two passes. The first stores q, k and v of all
// tokens in scratch. The second attends, token by token, over the token's own sequence.
#pragma once
#include "op.hpp"

namespace fk::reference {

// Rows of scratch (op.hpp) for Bidirectional.
struct BidirectionalRows {
  double *x, *row, *scores, *mixed, *attended, *qkv;
  template <class Init, class Forward>
  BidirectionalRows(Scratch& s, const Init& i, const Forward& args)
      : x(s.take(i.hidden_size)),
        row(s.take(i.hidden_size)),
        scores(s.take(args.positions->shape[0])),
        mixed(s.take(i.num_heads * i.head_dim)),
        attended(s.take(i.hidden_size)),
        qkv(s.take(args.positions->shape[0] * (i.num_heads + 2 * i.num_kv_heads) * i.head_dim)) {}
};

// Refuses dtypes and numbers of heads that Bidirectional does not take.
template <class Init, class Weights>
void need_bidirectional(const Init& init, const Weights& weights) {
  need_floats(weights.qkv, weights.qkv_bias.or_null, weights.o);
  if (init.num_heads % init.num_kv_heads)
    throw unsupported{"num_heads is not a multiple of num_kv_heads"};
}

template <class Init, class Weights, class Forward>
struct Bidirectional {
  const Init& init;
  const Weights& weights;
  const Forward& args;
  const BidirectionalRows& rows;

  int64_t tokens() const { return args.positions->shape[0]; }

  // First pass: computes and stores q, k and v of token t from x[C].
  void project(int64_t t, const double* x) const {
    double* heads = qkv(t);
    matrix_vector(weights.qkv, 0, stride(), init.hidden_size, weights.qkv_bias.or_null, x, heads);
    const fk_in* cache = weights.cos_sin_cache;
    const float* table = data<float>(cache) + offset(cache, index<int64_t>(args.positions, t));
    for (int64_t h = 0; h < init.num_heads + init.num_kv_heads; ++h)
      rotate(heads + h * init.head_dim, init.rotary_dim, false, table);
  }

  // Second pass: calls then(t, attended[C]) for every token. `attended` is attention after its
  // output projection.
  template <class Then>
  void attend(Then then) const {
    for (int64_t b = 0; b + 1 < args.cu_seqlens->shape[0]; ++b) {
      const int64_t first = index<int32_t>(args.cu_seqlens, b);
      const int64_t last = index<int32_t>(args.cu_seqlens, b + 1);
      for (int64_t t = first; t < last; ++t) {
        for (int64_t h = 0; h < init.num_heads; ++h) mix(t, h, first, last);
        matrix_vector(weights.o, 0, init.hidden_size, init.num_heads * init.head_dim, nullptr,
                      rows.mixed, rows.attended);
        then(t, rows.attended);
      }
    }
  }

 private:
  int64_t stride() const { return (init.num_heads + 2 * init.num_kv_heads) * init.head_dim; }
  double* qkv(int64_t t) const { return rows.qkv + t * stride(); }
  // Attention of head h of token t over the tokens [first, last), into rows.mixed.
  void mix(int64_t t, int64_t h, int64_t first, int64_t last) const {
    const int64_t width = init.head_dim;
    const int64_t key = init.num_heads + h / (init.num_heads / init.num_kv_heads);
    const double* q = qkv(t) + h * width;
    double* out = rows.mixed + h * width;
    std::fill_n(out, width, 0.0);
    Attention{init.scale}(
        first, last, rows.scores, [&](int64_t j) { return dot(q, qkv(j) + key * width, width); },
        [&](int64_t j, double p) {
          const double* v = qkv(j) + (key + init.num_kv_heads) * width;
          for (int64_t d = 0; d < width; ++d) out[d] += p * v[d];
        });
  }
};

}  // namespace fk::reference
