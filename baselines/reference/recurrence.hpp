// SPDX-License-Identifier: Apache-2.0
// The steps of a Mamba 2 mixer for one token, on rows of doubles. They are the convolution over the
// last tokens, the recurrence and the gated norm.
#pragma once
#include "op.hpp"

namespace fk::reference {

// The inputs of the last `taps` tokens, [taps, C]. The newest row is the current token's. A cached
// state has all rows but the newest.
class ConvWindow {
 public:
  ConvWindow(Scratch& s, int64_t taps, int64_t channels)
      : taps_(taps), channels_(channels), rows_(s.take(taps * channels)) {}

  // Loads a slot's state; zeros if `slot` is negative.
  void load_state(const fk_inout* state, int64_t slot) {
    if (slot < 0) return static_cast<void>(std::fill_n(rows_, taps_ * channels_, 0.0));
    for (int64_t u = 1; u < taps_; ++u)
      load(state, offset(state, slot, u - 1), channels_, rows_ + u * channels_);
  }
  void store_state(const fk_inout* state, int64_t slot) const {
    for (int64_t u = 1; u < taps_; ++u)
      store(state, offset(state, slot, u - 1), channels_, rows_ + u * channels_);
  }
  // Advances by one token. The caller fills the row that it returns.
  double* next() {
    std::copy_n(rows_ + channels_, (taps_ - 1) * channels_, rows_);
    return rows_ + (taps_ - 1) * channels_;
  }
  // out[c] = bias[c] + sum over u of weight[c,u] * row u [c]
  void convolve(const fk_in* weight, const fk_in* bias_or_null, bool silu_after,
                double* out) const {
    if (bias_or_null)
      load(bias_or_null, 0, channels_, out);
    else
      std::fill_n(out, channels_, 0.0);
    with_type(weight, [&](auto type) {
      const auto* w = static_cast<decltype(type)>(weight->data);
      for (int64_t c = 0; c < channels_; ++c) {
        for (int64_t u = 0; u < taps_; ++u)
          out[c] += value(w[c * taps_ + u]) * rows_[u * channels_ + c];
        if (silu_after) out[c] = silu(out[c]);
      }
    });
  }

 private:
  int64_t taps_, channels_;
  double* rows_;
};

// The step size of a head from its projection: softplus, then limits.
struct StepSize {
  bool softplus = true;
  double min = 0, max = 0;  // max 0: no limit

  double operator()(double dt) const {
    // from 40 on softplus(dt) is dt in double
    if (softplus && dt < 40) dt = std::log1p(std::exp(dt));
    dt = std::max(dt, min);
    return max > 0 ? std::min(dt, max) : dt;
  }
};

// Element `at` of a weight, or `otherwise` if the weight is absent.
inline double element_or(const fk_in* view, int64_t at, double otherwise) {
  double v = otherwise;
  if (view) load(view, at, 1, &v);
  return v;
}

// One head: state[D,DS] = exp(step * a) * state + step * x b^T; out[D] = state c + skip * x.
inline void ssd_step(double* state, int64_t width, int64_t state_size, double step, double a,
                     double skip, const double* x, const double* b, const double* c, double* out) {
  const double decay = std::exp(step * a);
  for (int64_t d = 0; d < width; ++d) {
    double* row = state + d * state_size;
    double sum = 0;
    for (int64_t y = 0; y < state_size; ++y) {
      row[y] = decay * row[y] + step * x[d] * b[y];
      sum += row[y] * c[y];
    }
    out[d] = sum + skip * x[d];
  }
}

// Loads or stores a head's state [D,DS] in ssm_state [slots,H,D,DS]. If `slot` is negative, the
// state loaded is zeros.
inline void load_head(const fk_inout* states, int64_t slot, int64_t h, double* state) {
  const int64_t width = states->shape[2], state_size = states->shape[3];
  if (slot < 0) return static_cast<void>(std::fill_n(state, width * state_size, 0.0));
  for (int64_t d = 0; d < width; ++d)
    load(states, offset(states, slot, h, d), state_size, state + d * state_size);
}
inline void store_head(const fk_inout* states, int64_t slot, int64_t h, const double* state) {
  const int64_t width = states->shape[2], state_size = states->shape[3];
  for (int64_t d = 0; d < width; ++d)
    store(states, offset(states, slot, h, d), state_size, state + d * state_size);
}

// The base of ops of the recurrence: x and out [T,H,D], dt [T,H], b and c [T,G,DS], ssm_state
// [slots,H,D,DS].
template <class Op>
struct SsdHeads : Base<Op> {
  using Base<Op>::Base, Base<Op>::init, Base<Op>::weights;
  struct Rows {
    double *state, *x, *b, *c, *out;
    Rows(Scratch& s, const typename Op::init& i)
        : state(s.take(i.head_dim * i.state_size)),
          x(s.take(i.head_dim)),
          b(s.take(i.state_size)),
          c(s.take(i.state_size)),
          out(s.take(i.head_dim)) {}
  };
  static void supports(const typename Op::init& init, const typename Op::weights& weights,
                       const typename Op::forward& max, fk_need& need) {
    need_floats(weights.d.or_null, weights.dt_bias.or_null, max.x, max.dt, max.b, max.c,
                max.ssm_state, max.out);
    if (init.num_heads % init.num_groups)
      throw unsupported{"num_heads is not a multiple of num_groups"};
    need.scratch = scratch_bytes<Rows>(init);
  }
  // Runs tokens [first, last) through all heads. It begins with the slot's state, or with zeros if
  // `fresh`, and stores the last state in the slot.
  void scan(const typename Op::forward& args, int64_t first, int64_t last, int64_t slot, bool fresh,
            const Rows& rows) const {
    for (int64_t h = 0; h < init.num_heads; ++h) {
      load_head(args.ssm_state, fresh ? -1 : slot, h, rows.state);
      for (int64_t t = first; t < last; ++t) step(args, t, h, rows);
      store_head(args.ssm_state, slot, h, rows.state);
    }
  }

 private:
  void step(const typename Op::forward& args, int64_t t, int64_t h, const Rows& rows) const {
    const StepSize step_size{init.dt_softplus != 0, init.dt_min, init.dt_max};
    const int64_t group = h / (init.num_heads / init.num_groups);
    double dt;
    load(args.dt, offset(args.dt, t, h), 1, &dt);
    load(args.x, offset(args.x, t, h), init.head_dim, rows.x);
    load(args.b, offset(args.b, t, group), init.state_size, rows.b);
    load(args.c, offset(args.c, t, group), init.state_size, rows.c);
    ssd_step(rows.state, init.head_dim, init.state_size,
             step_size(dt + element_or(weights.dt_bias.or_null, h, 0)),
             value(data<float>(weights.a)[h]), element_or(weights.d.or_null, h, 0), rows.x, rows.b,
             rows.c, rows.out);
    store(args.out, offset(args.out, t, h), init.head_dim, rows.out);
  }
};

// x = x * silu(z), or x * sigmoid(z), then an RMSNorm of each group of channels. If
// `norm_before_gate`, the norm comes first.
inline void gated_rms_normalize(double* x, const double* z, int64_t count, int64_t group,
                                double eps, bool norm_before_gate, const fk_in* weight, double* row,
                                bool sigmoid_gate = false) {
  const auto gate = [&] {
    for (int64_t i = 0; i < count; ++i)
      x[i] *= sigmoid_gate ? 1 / (1 + std::exp(-z[i])) : silu(z[i]);
  };
  if (!norm_before_gate) gate();
  for (int64_t i = 0; i < count; i += group) rms_normalize(x + i, group, eps, nullptr, row);
  multiply(x, count, weight, row);
  if (norm_before_gate) gate();
}

}  // namespace fk::reference
