// SPDX-License-Identifier: Apache-2.0
// What a Mamba 2 mixer does with one token, on rows of doubles: the convolution over the last
// tokens and the step of the recurrence.
#pragma once
#include "op.hpp"

namespace fk::reference {

// The inputs of the last `taps` tokens, [U,C]; the newest row is the current token's. A state holds
// all but the newest.
class ConvWindow {
 public:
  ConvWindow(Scratch& s, int64_t taps, int64_t channels)
      : taps_(taps), channels_(channels), rows_(s.take(taps * channels)) {}

  // `slot` < 0: zeros.
  void load_state(const fk_inout* state, int64_t slot) {
    if (slot < 0) return static_cast<void>(std::fill_n(rows_, taps_ * channels_, 0.0));
    for (int64_t u = 1; u < taps_; ++u)
      load(state, offset(state, slot, u - 1), channels_, rows_ + u * channels_);
  }
  void store_state(const fk_inout* state, int64_t slot) const {
    for (int64_t u = 1; u < taps_; ++u)
      store(state, offset(state, slot, u - 1), channels_, rows_ + u * channels_);
  }
  // Moves on by a token; its row is to be filled.
  double* next() {
    std::copy_n(rows_ + channels_, (taps_ - 1) * channels_, rows_);
    return rows_ + (taps_ - 1) * channels_;
  }
  // out[c] = bias + sum over u of weight[c,u] * row u
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

// The step size of a head from its projection.
struct StepSize {
  bool softplus = true;
  double min = 0, max = 0;  // max 0: no limit

  double operator()(double dt) const {
    if (softplus && dt < 40) dt = std::log1p(std::exp(dt));
    dt = std::max(dt, min);
    return max > 0 ? std::min(dt, max) : dt;
  }
};

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

// Element h of a weight that may be absent.
inline double element_or(const fk_in* view, int64_t at, double otherwise) {
  double v = otherwise;
  if (view) load(view, at, 1, &v);
  return v;
}

// x = x * silu(z), normalised over each group of channels; or the other way round.
inline void gated_rms_normalize(double* x, const double* z, int64_t count, int64_t group,
                                double eps, bool norm_before_gate, const fk_in* weight,
                                double* row) {
  const auto gate = [&] {
    for (int64_t i = 0; i < count; ++i) x[i] *= silu(z[i]);
  };
  if (!norm_before_gate) gate();
  for (int64_t i = 0; i < count; i += group) rms_normalize(x + i, group, eps, nullptr, row);
  multiply(x, count, weight, row);
  if (norm_before_gate) gate();
}

}  // namespace fk::reference
