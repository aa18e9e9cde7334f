// SPDX-License-Identifier: Apache-2.0
// A transformer's block whose norms and results are modulated by conditions s [T, E], for tokens
// and for atoms in windows.
#pragma once
#include "fold.hpp"

namespace fk::reference {

// x = sigmoid(gate @ n + gate_bias) * norm(x) + shift @ n, n = norm(s) * weight
struct Modulation {
  const fk_in *norm, *gate, *gate_bias, *shift;
  // `row` has room for the wider of both, `n` for s, `a` and `b` for x.
  void operator()(double* x, int64_t channels, const double* s, int64_t conditions, double eps,
                  double* n, double* a, double* b, double* row) const {
    std::copy_n(s, conditions, n);
    layer_normalize(n, conditions, eps, norm, nullptr, row);
    layer_normalize(x, channels, eps, nullptr, nullptr, row);
    matrix_vector(gate, 0, channels, conditions, gate_bias, n, a);
    matrix_vector(shift, 0, channels, conditions, nullptr, n, b);
    for (int64_t c = 0; c < channels; ++c) x[c] = logistic(a[c]) * x[c] + b[c];
  }
};

template <class Init, class Weights>
struct ModulatedBlock {
  const Init& init;
  const Weights& w;

  struct Rows {
    double *x, *s, *q, *g, *kv, *z, *bias, *scores, *mixed, *wide, *n, *a, *b, *c, *row;
    Rows(Scratch& all, const Init& i, int64_t tokens, int64_t keys)
        : x(all.take(tokens * i.hidden_size)),
          s(all.take(tokens * i.cond_size)),
          q(all.take(tokens * i.num_heads * i.head_dim)),
          g(all.take(tokens * i.num_heads * i.head_dim)),
          kv(all.take(tokens * 2 * i.num_heads * i.head_dim)),
          z(all.take(i.pair_size)),
          bias(all.take(keys * i.num_heads)),
          scores(all.take(keys)),
          mixed(all.take(i.num_heads * i.head_dim)),
          wide(all.take(2 * i.intermediate_size)),
          n(all.take(i.cond_size)),
          a(all.take(i.hidden_size)),
          b(all.take(i.hidden_size)),
          c(all.take(i.hidden_size)),
          row(all.take(std::max(i.hidden_size, i.cond_size))) {}
  };

  Modulation before_attention() const { return {w.a_norm, w.a_gate, w.a_gate_bias, w.a_shift}; }

  // q, g, k and v of all tokens; k and v behind a modulation of their own.
  void project(int64_t tokens, const Modulation& of_keys, const Rows& r) const {
    const int64_t channels = init.hidden_size, all = init.num_heads * init.head_dim;
    for (int64_t t = 0; t < tokens; ++t) {
      modulate(before_attention(), t, r);
      matrix_vector(w.q, 0, all, channels, w.q_bias, r.c, r.q + t * all);
      matrix_vector(w.g, 0, all, channels, nullptr, r.c, r.g + t * all);
      modulate(of_keys, t, r);
      matrix_vector(w.kv, 0, 2 * all, channels, nullptr, r.c, r.kv + t * 2 * all);
    }
  }
  // Adds the attention of the token `query` and then the MLP to token t. key(j) is the token of key
  // j; z has a row for each key from `pair` on.
  template <class Key>
  void update(int64_t t, int64_t query, int64_t keys, Key key, const fk_in* z, int64_t pair,
              const Rows& r) const {
    const int64_t heads = init.num_heads, width = init.head_dim, all = heads * width;
    for (int64_t j = 0; j < keys; ++j) {
      load(z, (pair + j) * init.pair_size, init.pair_size, r.z);
      matrix_vector(w.bias_proj, 0, heads, init.pair_size, nullptr, r.z, r.bias + j * heads);
    }
    std::fill_n(r.mixed, all, 0.0);
    for (int64_t h = 0; h < heads; ++h) {
      Attention{}(
          0, keys, r.scores,
          [&](int64_t j) {
            const double* k = r.kv + key(j) * 2 * all;
            double dot = 0;
            for (int64_t d = h * width; d < (h + 1) * width; ++d)
              dot += r.q[query * all + d] * k[d];
            return dot / std::sqrt(static_cast<double>(width)) + r.bias[j * heads + h];
          },
          [&](int64_t j, double p) {
            const double* v = r.kv + key(j) * 2 * all + all;
            for (int64_t d = h * width; d < (h + 1) * width; ++d) r.mixed[d] += p * v[d];
          });
    }
    for (int64_t d = 0; d < all; ++d) r.mixed[d] *= logistic(r.g[query * all + d]);
    matrix_vector(w.o, 0, init.hidden_size, all, nullptr, r.mixed, r.a);
    add_gated(w.out_gate, w.out_gate_bias, t, r);
    modulate({w.t_norm, w.t_gate, w.t_gate_bias, w.t_shift}, t, r);
    matrix_vector(w.gate_up, 0, 2 * init.intermediate_size, init.hidden_size, nullptr, r.c, r.wide);
    silu_halves(r.wide, init.intermediate_size);
    matrix_vector(w.down, 0, init.hidden_size, init.intermediate_size, nullptr, r.wide, r.a);
    add_gated(w.mlp_gate, w.mlp_gate_bias, t, r);
  }

 private:
  // r.c = the modulated norm of token t
  void modulate(const Modulation& by, int64_t t, const Rows& r) const {
    std::copy_n(r.x + t * init.hidden_size, init.hidden_size, r.c);
    by(r.c, init.hidden_size, r.s + t * init.cond_size, init.cond_size, init.eps, r.n, r.a, r.b,
       r.row);
  }
  // Token t grows by sigmoid(gate @ s + bias) * r.a.
  void add_gated(const fk_in* gate, const fk_in* bias, int64_t t, const Rows& r) const {
    matrix_vector(gate, 0, init.hidden_size, init.cond_size, bias, r.s + t * init.cond_size, r.b);
    for (int64_t c = 0; c < init.hidden_size; ++c)
      r.x[t * init.hidden_size + c] += logistic(r.b[c]) * r.a[c];
  }
};

}  // namespace fk::reference
