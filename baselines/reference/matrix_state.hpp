// SPDX-License-Identifier: Apache-2.0
// Recurrences whose state is a matrix for each head: gated linear attention, the gated delta rule
// and a transition that is diagonal plus low rank. They have one step in common.
#pragma once
#include "recurrence.hpp"

namespace fk::reference {

// A token of one head: state = diag(decay) state + b (a^T state)^T + k v^T with the old state in
// all places; out[DV] = scale * q^T state. a and b are null together. `seen` has room for DV.
struct MatrixStep {
  int64_t width, values;  // of a key, of a value
  double scale;
  const double *decay, *q, *k, *v, *a, *b;

  void advance(double* state, double* seen, double* out) const {
    std::fill_n(out, values, 0.0);
    std::fill_n(seen, values, 0.0);
    for (int64_t d = 0; a && d < width; ++d)
      for (int64_t j = 0; j < values; ++j) seen[j] += a[d] * state[d * values + j];
    for (int64_t d = 0; d < width; ++d) {
      double* row = state + d * values;
      for (int64_t j = 0; j < values; ++j) {
        row[j] = decay[d] * row[j] + k[d] * v[j] + (a ? b[d] * seen[j] : 0);
        out[j] += scale * q[d] * row[j];
      }
    }
  }
};

// The base of these ops: q, k and others [T,H,D], v and out [T,H,DV], recurrent_state
// [slots,H,D,DV]. Derived has `MatrixStep inputs(args, t, h, rows)`, which loads a token of a head.
template <class Op, class Derived>
struct MatrixHeads : Base<Op> {
  using Base<Op>::Base, Base<Op>::init, Base<Op>::weights;
  struct Rows {
    double *state, *seen, *out, *decay, *q, *k, *v, *a, *b;
    Rows(Scratch& s, const typename Op::init& i)
        : state(s.take(i.head_dim * i.v_head_dim)),
          seen(s.take(i.v_head_dim)),
          out(s.take(i.v_head_dim)),
          decay(s.take(i.head_dim)),
          q(s.take(i.head_dim)),
          k(s.take(i.head_dim)),
          v(s.take(i.v_head_dim)),
          a(s.take(i.head_dim)),
          b(s.take(i.head_dim)) {}
  };
  // Tokens [first, last) of all heads. They begin with the slot's state, or with zeros if `fresh`.
  void scan(const typename Op::forward& args, int64_t first, int64_t last, int64_t slot, bool fresh,
            const Rows& rows) const {
    for (int64_t h = 0; h < init.num_heads; ++h) {
      load_head(args.recurrent_state, fresh ? -1 : slot, h, rows.state);
      for (int64_t t = first; t < last; ++t) {
        static_cast<const Derived*>(this)
            ->inputs(args, t, h, rows)
            .advance(rows.state, rows.seen, rows.out);
        store(args.out, offset(args.out, t, h), init.v_head_dim, rows.out);
      }
      store_head(args.recurrent_state, slot, h, rows.state);
    }
  }
  // A call over all tokens of each request.
  void scan_requests(const typename Op::forward& args, const fk_ctx& ctx) const {
    Scratch scratch(ctx);
    const Rows rows(scratch, init);
    for (int64_t b = 0; b < args.state_slots->shape[0]; ++b) {
      const int64_t first = index<int32_t>(args.cu_seqlens, b);
      const int64_t last = index<int32_t>(args.cu_seqlens, b + 1);
      if (first == last) continue;
      const bool fresh = index<int32_t>(args.has_initial_state, b) == 0;
      scan(args, first, last, index<int32_t>(args.state_slots, b), fresh, rows);
    }
  }
  // A call over one token of each request.
  void scan_tokens(const typename Op::forward& args, const fk_ctx& ctx) const {
    Scratch scratch(ctx);
    const Rows rows(scratch, init);
    for (int64_t r = 0; r < args.state_slots->shape[0]; ++r)
      scan(args, r, r + 1, index<int32_t>(args.state_slots, r), false, rows);
  }

 protected:
  void load_token(const fk_in* view, int64_t t, int64_t h, int64_t count, double* to) const {
    load(view, offset(view, t, h), count, to);
  }
};

template <class Op>
struct GatedHeads : MatrixHeads<Op, GatedHeads<Op>> {
  using Heads = MatrixHeads<Op, GatedHeads<Op>>;
  using Heads::Heads, Heads::init, Heads::weights;
  static void supports(const typename Op::init& init, const typename Op::weights&,
                       const typename Op::forward& max, fk_need& need) {
    need_floats(max.q, max.k, max.v, max.g.or_null, max.recurrent_state, max.out);
    need.scratch = scratch_bytes<typename Heads::Rows>(init);
  }
  MatrixStep inputs(const typename Op::forward& args, int64_t t, int64_t h,
                    const typename Heads::Rows& rows) const {
    this->load_token(args.q, t, h, init.head_dim, rows.q);
    this->load_token(args.k, t, h, init.head_dim, rows.k);
    this->load_token(args.v, t, h, init.v_head_dim, rows.v);
    std::fill_n(rows.decay, init.head_dim, 0.0);
    if (const fk_in* g = args.g.or_null) this->load_token(g, t, h, init.head_dim, rows.decay);
    const double fixed = element_or(weights.decay.or_null, h, 0);
    for (int64_t d = 0; d < init.head_dim; ++d) rows.decay[d] = std::exp(rows.decay[d] + fixed);
    return {init.head_dim, init.v_head_dim, init.scale, rows.decay, rows.q,
            rows.k,        rows.v,          nullptr,    nullptr};
  }
};

// x = x / sqrt(sum(x^2) + eps)
inline void l2_normalize(double* x, int64_t count, double eps) {
  double squares = eps;
  for (int64_t i = 0; i < count; ++i) squares += x[i] * x[i];
  for (int64_t i = 0; i < count; ++i) x[i] /= std::sqrt(squares);
}

// state = decay state, then state += beta k (v - k^T state)^T: so a is k times the decays, and b is
// -beta k.
template <class Op>
struct DeltaHeads : MatrixHeads<Op, DeltaHeads<Op>> {
  using Heads = MatrixHeads<Op, DeltaHeads<Op>>;
  using Heads::Heads, Heads::init;
  static void supports(const typename Op::init& init, const typename Op::weights&,
                       const typename Op::forward& max, fk_need& need) {
    need_floats(max.q, max.k, max.v, max.g, max.beta, max.recurrent_state, max.out);
    if (init.num_heads % init.num_k_heads)
      throw unsupported{"num_heads is not a multiple of num_k_heads"};
    if (init.gate_dim != 1 && init.gate_dim != init.head_dim)
      throw unsupported{"gate_dim is neither 1 nor head_dim"};
    need.scratch = scratch_bytes<typename Heads::Rows>(init);
  }
  MatrixStep inputs(const typename Op::forward& args, int64_t t, int64_t h,
                    const typename Heads::Rows& rows) const {
    const int64_t width = init.head_dim, key = h / (init.num_heads / init.num_k_heads);
    this->load_token(args.q, t, key, width, rows.q);
    this->load_token(args.k, t, key, width, rows.k);
    this->load_token(args.v, t, h, init.v_head_dim, rows.v);
    this->load_token(args.g, t, h, init.gate_dim, rows.decay);
    if (init.gate_dim == 1) std::fill_n(rows.decay, width, *rows.decay);
    if (init.qk_l2_norm) {
      l2_normalize(rows.q, width, init.norm_eps);
      l2_normalize(rows.k, width, init.norm_eps);
    }
    double beta;
    load(args.beta, offset(args.beta, t, h), 1, &beta);
    for (int64_t d = 0; d < width; ++d) {
      rows.decay[d] = std::exp(rows.decay[d]);
      rows.a[d] = rows.k[d] * rows.decay[d];
      rows.k[d] *= beta;
      rows.b[d] = -rows.k[d];
    }
    return {width, init.v_head_dim, init.scale, rows.decay, rows.q, rows.k, rows.v, rows.a, rows.b};
  }
};

template <class Op>
struct DplrHeads : MatrixHeads<Op, DplrHeads<Op>> {
  using Heads = MatrixHeads<Op, DplrHeads<Op>>;
  using Heads::Heads, Heads::init;
  static void supports(const typename Op::init& init, const typename Op::weights&,
                       const typename Op::forward& max, fk_need& need) {
    need_floats(max.r, max.w, max.k, max.v, max.a, max.b, max.recurrent_state, max.out);
    need.scratch = scratch_bytes<typename Heads::Rows>(init);
  }
  MatrixStep inputs(const typename Op::forward& args, int64_t t, int64_t h,
                    const typename Heads::Rows& rows) const {
    const int64_t width = init.head_dim;
    this->load_token(args.r, t, h, width, rows.q);
    this->load_token(args.w, t, h, width, rows.decay);
    this->load_token(args.k, t, h, width, rows.k);
    this->load_token(args.v, t, h, init.v_head_dim, rows.v);
    this->load_token(args.a, t, h, width, rows.a);
    this->load_token(args.b, t, h, width, rows.b);
    for (int64_t d = 0; d < width; ++d) rows.decay[d] = std::exp(rows.decay[d]);
    return {width, init.v_head_dim, init.scale, rows.decay, rows.q, rows.k, rows.v, rows.a, rows.b};
  }
};

}  // namespace fk::reference
