// SPDX-License-Identifier: Apache-2.0
// Parts of layers for structures of molecules, on rows of doubles. z is [T, T, C], pairs of tokens.
// Each part writes its result to `out`, which may not be its input.
#pragma once
#include "op.hpp"

namespace fk::reference {

inline double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// to[i] += from[i]
inline void accumulate(double* to, const double* from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

struct TriangleMultiplication {
  int64_t tokens, channels, hidden;
  bool outgoing;
  double eps;
  const fk_in *norm, *norm_bias, *ab, *norm_out, *norm_out_bias, *o, *gate;

  struct Rows {
    double *normed, *a, *b, *wide, *row, *gate;
    Rows(Scratch& s, int64_t tokens, int64_t channels, int64_t hidden)
        : normed(s.take(tokens * tokens * channels)),
          a(s.take(tokens * tokens * hidden)),
          b(s.take(tokens * tokens * hidden)),
          wide(s.take(4 * hidden)),
          row(s.take(std::max(channels, hidden))),
          gate(s.take(channels)) {}
  };
  void operator()(const double* z, const Rows& r, double* out) const {
    for (int64_t pair = 0; pair < tokens * tokens; ++pair) {
      double* n = r.normed + pair * channels;
      std::copy_n(z + pair * channels, channels, n);
      layer_normalize(n, channels, eps, norm, norm_bias, r.row);
      matrix_vector(ab, 0, 4 * hidden, channels, nullptr, n, r.wide);
      for (int64_t f = 0; f < hidden; ++f) {
        r.a[pair * hidden + f] = logistic(r.wide[f]) * r.wide[2 * hidden + f];
        r.b[pair * hidden + f] = logistic(r.wide[hidden + f]) * r.wide[3 * hidden + f];
      }
    }
    for (int64_t i = 0; i < tokens; ++i) {
      for (int64_t j = 0; j < tokens; ++j) {
        double* p = r.wide;
        std::fill_n(p, hidden, 0.0);
        for (int64_t k = 0; k < tokens; ++k) {
          const double* a = r.a + (outgoing ? i * tokens + k : k * tokens + i) * hidden;
          const double* b = r.b + (outgoing ? j * tokens + k : k * tokens + j) * hidden;
          for (int64_t f = 0; f < hidden; ++f) p[f] += a[f] * b[f];
        }
        layer_normalize(p, hidden, eps, norm_out, norm_out_bias, r.row);
        const int64_t pair = i * tokens + j;
        matrix_vector(gate, 0, channels, channels, nullptr, r.normed + pair * channels, r.gate);
        matrix_vector(o, 0, channels, hidden, nullptr, p, out + pair * channels);
        for (int64_t c = 0; c < channels; ++c) out[pair * channels + c] *= logistic(r.gate[c]);
      }
    }
  }
};

struct TriangleAttention {
  int64_t tokens, channels, heads, width;
  bool ending;
  double eps;
  const fk_in *norm, *norm_bias, *bias_proj, *qkvg, *o;

  struct Rows {
    double *normed, *qkvg, *bias, *scores, *mixed, *row;
    Rows(Scratch& s, int64_t tokens, int64_t channels, int64_t heads, int64_t width)
        : normed(s.take(channels)),
          qkvg(s.take(tokens * tokens * 4 * heads * width)),
          bias(s.take(tokens * tokens * heads)),
          scores(s.take(tokens)),
          mixed(s.take(heads * width)),
          row(s.take(channels)) {}
  };
  void operator()(const double* z, const Rows& r, double* out) const {
    const int64_t all = heads * width;
    for (int64_t pair = 0; pair < tokens * tokens; ++pair) {
      std::copy_n(z + pair * channels, channels, r.normed);
      layer_normalize(r.normed, channels, eps, norm, norm_bias, r.row);
      matrix_vector(qkvg, 0, 4 * all, channels, nullptr, r.normed, r.qkvg + pair * 4 * all);
      matrix_vector(bias_proj, 0, heads, channels, nullptr, r.normed, r.bias + pair * heads);
    }
    for (int64_t line = 0; line < tokens; ++line) {
      const auto at = [&](int64_t t) {
        return (ending ? t * tokens + line : line * tokens + t) * 4 * all;
      };
      for (int64_t t = 0; t < tokens; ++t) {
        const double* q = r.qkvg + at(t);
        std::fill_n(r.mixed, all, 0.0);
        for (int64_t h = 0; h < heads; ++h) {
          Attention{}(
              0, tokens, r.scores,
              [&](int64_t k) {
                const double* key = r.qkvg + at(k) + all;
                double dot = 0;
                for (int64_t d = h * width; d < (h + 1) * width; ++d) dot += q[d] * key[d];
                return dot / std::sqrt(static_cast<double>(width)) +
                       r.bias[(t * tokens + k) * heads + h];
              },
              [&](int64_t k, double p) {
                const double* v = r.qkvg + at(k) + 2 * all;
                for (int64_t d = h * width; d < (h + 1) * width; ++d) r.mixed[d] += p * v[d];
              });
        }
        for (int64_t d = 0; d < all; ++d) r.mixed[d] *= logistic(q[3 * all + d]);
        matrix_vector(o, 0, channels, all, nullptr, r.mixed, out + at(t) / (4 * all) * channels);
      }
    }
  }
};

// Gated attention of tokens x [T, C], whose scores grow by a product of normed pairs z [T, T, Z].
struct AttentionPairBias {
  int64_t tokens, channels, pair, heads, width;
  double eps;
  const fk_in *norm, *norm_bias, *norm_z, *norm_z_bias, *bias_proj, *q, *q_bias, *kvg, *o;

  struct Rows {
    double *normed, *q, *kvg, *bias, *scores, *mixed, *z, *row;
    Rows(Scratch& s, int64_t tokens, int64_t channels, int64_t pair, int64_t heads, int64_t width)
        : normed(s.take(channels)),
          q(s.take(tokens * heads * width)),
          kvg(s.take(tokens * 3 * heads * width)),
          bias(s.take(heads * tokens)),
          scores(s.take(tokens)),
          mixed(s.take(heads * width)),
          z(s.take(pair)),
          row(s.take(std::max(channels, pair))) {}
  };
  void operator()(const double* x, const double* pairs, const Rows& r, double* out) const {
    const int64_t all = heads * width;
    for (int64_t t = 0; t < tokens; ++t) {
      std::copy_n(x + t * channels, channels, r.normed);
      layer_normalize(r.normed, channels, eps, norm, norm_bias, r.row);
      matrix_vector(q, 0, all, channels, q_bias, r.normed, r.q + t * all);
      matrix_vector(kvg, 0, 3 * all, channels, nullptr, r.normed, r.kvg + t * 3 * all);
    }
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t k = 0; k < tokens; ++k) {
        std::copy_n(pairs + (t * tokens + k) * pair, pair, r.z);
        layer_normalize(r.z, pair, eps, norm_z, norm_z_bias, r.row);
        matrix_vector(bias_proj, 0, heads, pair, nullptr, r.z, r.bias + k * heads);
      }
      std::fill_n(r.mixed, all, 0.0);
      for (int64_t h = 0; h < heads; ++h) {
        Attention{}(
            0, tokens, r.scores,
            [&](int64_t k) {
              double dot = 0;
              for (int64_t d = h * width; d < (h + 1) * width; ++d)
                dot += r.q[t * all + d] * r.kvg[k * 3 * all + d];
              return dot / std::sqrt(static_cast<double>(width)) + r.bias[k * heads + h];
            },
            [&](int64_t k, double p) {
              for (int64_t d = h * width; d < (h + 1) * width; ++d)
                r.mixed[d] += p * r.kvg[k * 3 * all + all + d];
            });
      }
      for (int64_t d = 0; d < all; ++d) r.mixed[d] *= logistic(r.kvg[t * 3 * all + 2 * all + d]);
      matrix_vector(o, 0, channels, all, nullptr, r.mixed, out + t * channels);
    }
  }
};

// x += down @ (silu(gate) * up) of the norm of x, row by row.
struct Transition {
  int64_t channels, hidden;
  double eps;
  const fk_in *norm, *norm_bias, *gate_up, *down;

  struct Rows {
    double *normed, *wide, *out, *row;
    Rows(Scratch& s, int64_t channels, int64_t hidden)
        : normed(s.take(channels)),
          wide(s.take(2 * hidden)),
          out(s.take(channels)),
          row(s.take(channels)) {}
  };
  void operator()(double* x, int64_t count, const Rows& r) const {
    for (int64_t t = 0; t < count; ++t, x += channels) {
      std::copy_n(x, channels, r.normed);
      layer_normalize(r.normed, channels, eps, norm, norm_bias, r.row);
      matrix_vector(gate_up, 0, 2 * hidden, channels, nullptr, r.normed, r.wide);
      silu_halves(r.wide, hidden);
      matrix_vector(down, 0, channels, hidden, nullptr, r.wide, r.out);
      accumulate(x, r.out, channels);
    }
  }
};

// Four updates of pairs and a transition, of the weights of pair_block and of pairformer_block.
struct PairRows {
  double* update;
  TriangleMultiplication::Rows multiplication;
  TriangleAttention::Rows attention;
  Transition::Rows transition;
  template <class Init>
  PairRows(Scratch& s, const Init& i, int64_t tokens)
      : update(s.take(tokens * tokens * i.hidden_size)),
        multiplication(s, tokens, i.hidden_size, i.mul_size),
        attention(s, tokens, i.hidden_size, i.num_heads, i.head_dim),
        transition(s, i.hidden_size, i.intermediate_size) {}
};
template <class Init, class Weights>
void update_pairs(const Init& i, const Weights& w, int64_t tokens, double* z, const PairRows& r) {
  const int64_t all = tokens * tokens * i.hidden_size;
  const auto add = [&] { accumulate(z, r.update, all); };
  TriangleMultiplication{tokens,
                         i.hidden_size,
                         i.mul_size,
                         true,
                         i.eps,
                         w.mul_out_norm,
                         w.mul_out_norm_bias,
                         w.mul_out_ab,
                         w.mul_out_norm_out,
                         w.mul_out_norm_out_bias,
                         w.mul_out_o,
                         w.mul_out_gate}(z, r.multiplication, r.update);
  add();
  TriangleMultiplication{tokens,
                         i.hidden_size,
                         i.mul_size,
                         false,
                         i.eps,
                         w.mul_in_norm,
                         w.mul_in_norm_bias,
                         w.mul_in_ab,
                         w.mul_in_norm_out,
                         w.mul_in_norm_out_bias,
                         w.mul_in_o,
                         w.mul_in_gate}(z, r.multiplication, r.update);
  add();
  TriangleAttention{tokens,
                    i.hidden_size,
                    i.num_heads,
                    i.head_dim,
                    false,
                    i.eps,
                    w.att_start_norm,
                    w.att_start_norm_bias,
                    w.att_start_bias_proj,
                    w.att_start_qkvg,
                    w.att_start_o}(z, r.attention, r.update);
  add();
  TriangleAttention{
      tokens,         i.hidden_size,       i.num_heads,         i.head_dim,     true,       i.eps,
      w.att_end_norm, w.att_end_norm_bias, w.att_end_bias_proj, w.att_end_qkvg, w.att_end_o}(
      z, r.attention, r.update);
  add();
  Transition{i.hidden_size,     i.intermediate_size,    i.eps,
             w.transition_norm, w.transition_norm_bias, w.transition_gate_up,
             w.transition_down}(z, tokens * tokens, r.transition);
}

}  // namespace fk::reference
