// SPDX-License-Identifier: Apache-2.0
// The recurrence of Mamba, and its mixer: input projection, convolution over the last tokens, step
// sizes, recurrence and output projection. The mixer runs token by token for each request, without
// rounding between the steps. States are read and written once per request.
#pragma once
#include "recurrence.hpp"

namespace fk::reference {

// Loads or stores the states [C,DS] of all channels in ssm_state [slots,C,DS]. If `slot` is
// negative, the states loaded are zeros.
inline void load_channels(const fk_inout* states, int64_t slot, double* state) {
  const int64_t channels = states->shape[1], size = states->shape[2];
  if (slot < 0) return static_cast<void>(std::fill_n(state, channels * size, 0.0));
  for (int64_t c = 0; c < channels; ++c)
    load(states, offset(states, slot, c), size, state + c * size);
}
inline void store_channels(const fk_inout* states, int64_t slot, const double* state) {
  const int64_t channels = states->shape[1], size = states->shape[2];
  for (int64_t c = 0; c < channels; ++c)
    store(states, offset(states, slot, c), size, state + c * size);
}

// One channel: state[DS] = exp(step * a) * state + step * x * b. Returns state . c.
inline double selective_step(double* state, int64_t size, double step, const float* a, double x,
                             const double* b, const double* c) {
  double sum = 0;
  for (int64_t y = 0; y < size; ++y) {
    state[y] = std::exp(step * value(a[y])) * state[y] + step * x * b[y];
    sum += state[y] * c[y];
  }
  return sum;
}

// The base of selective_scan and selective_scan_update.
template <class Op>
struct SelectiveChannels : Base<Op> {
  using Base<Op>::Base, Base<Op>::init, Base<Op>::weights;
  struct Rows {
    double *state, *x, *dt, *z, *b, *c;
    Rows(Scratch& s, const typename Op::init& i)
        : state(s.take(i.channels * i.state_size)),
          x(s.take(i.channels)),
          dt(s.take(i.channels)),
          z(s.take(i.channels)),
          b(s.take(i.state_size)),
          c(s.take(i.state_size)) {}
  };
  static void supports(const typename Op::init& init, const typename Op::weights& weights,
                       const typename Op::forward& max, fk_need& need) {
    need_floats(weights.d.or_null, weights.dt_bias.or_null, max.x, max.dt, max.b, max.c,
                max.z.or_null, max.ssm_state, max.out);
    need.scratch = scratch_bytes<Rows>(init);
  }
  // Tokens [first, last) of a request. They begin with the slot's state, or with zeros if `fresh`.
  void scan(const typename Op::forward& args, int64_t first, int64_t last, int64_t slot, bool fresh,
            const Rows& rows) const {
    load_channels(args.ssm_state, fresh ? -1 : slot, rows.state);
    for (int64_t t = first; t < last; ++t) token(args, t, rows);
    store_channels(args.ssm_state, slot, rows.state);
  }

 private:
  void token(const typename Op::forward& args, int64_t t, const Rows& rows) const {
    const StepSize step_size{init.dt_softplus != 0};
    const fk_in* z = args.z.or_null;
    load(args.x, offset(args.x, t), init.channels, rows.x);
    load(args.dt, offset(args.dt, t), init.channels, rows.dt);
    load(args.b, offset(args.b, t), init.state_size, rows.b);
    load(args.c, offset(args.c, t), init.state_size, rows.c);
    if (z) load(z, offset(z, t), init.channels, rows.z);
    for (int64_t c = 0; c < init.channels; ++c) {
      const double step = step_size(rows.dt[c] + element_or(weights.dt_bias.or_null, c, 0));
      const double sum =
          selective_step(rows.state + c * init.state_size, init.state_size, step,
                         data<float>(weights.a) + c * init.state_size, rows.x[c], rows.b, rows.c);
      rows.x[c] =
          (sum + element_or(weights.d.or_null, c, 0) * rows.x[c]) * (z ? silu(rows.z[c]) : 1);
    }
    store(args.out, offset(args.out, t), init.channels, rows.x);
  }
};

// Rows of scratch for SelectiveMixer.
struct SelectiveMixerRows {
  ConvWindow window;
  double *projected, *mixed, *selected, *dt, *state, *row;
  template <class Init>
  SelectiveMixerRows(Scratch& s, const Init& i)
      : window(s, i.kernel_size, i.intermediate_size),
        projected(s.take(2 * i.intermediate_size)),
        mixed(s.take(i.intermediate_size)),
        selected(s.take(i.time_step_rank + 2 * i.state_size)),
        dt(s.take(i.intermediate_size)),
        state(s.take(i.intermediate_size * i.state_size)),
        row(s.take(std::max({i.time_step_rank, i.state_size, i.hidden_size}))) {}
};

// Refuses dtypes that SelectiveMixer does not take.
template <class Weights, class Forward>
void need_selective_mixer(const Weights& w, const Forward& max) {
  need_floats(w.in_proj, w.in_proj_bias.or_null, w.conv, w.conv_bias.or_null, w.x_proj,
              w.dt_norm.or_null, w.b_norm.or_null, w.c_norm.or_null, w.dt_proj, w.dt_bias, w.d,
              w.out_proj, w.out_proj_bias.or_null, max.conv_state, max.ssm_state);
}

template <class Init, class Weights, class Forward>
struct SelectiveMixer {
  const Init& init;
  const Weights& weights;
  const Forward& args;
  SelectiveMixerRows& rows;
  bool silu_after;  // apply silu after the convolution

  // load_token(t, x[C]) loads token t's input; done(t, out[C]) takes its output.
  template <class Load, class Done>
  void run(double* x, double* out, Load load_token, Done done) {
    const fk_in* has_state = args.has_initial_state.or_null;
    for (int64_t b = 0; b < args.state_slots->shape[0]; ++b) {
      const int64_t first = index<int32_t>(args.cu_seqlens, b);
      const int64_t last = index<int32_t>(args.cu_seqlens, b + 1);
      if (first == last) continue;
      const int64_t slot = index<int32_t>(args.state_slots, b);
      // -1: no state yet, so zeros.
      const int64_t from = !has_state || index<int32_t>(has_state, b) ? slot : -1;
      rows.window.load_state(args.conv_state, from);
      load_channels(args.ssm_state, from, rows.state);
      for (int64_t t = first; t < last; ++t) {
        load_token(t, x);
        token(x, out);
        done(t, out);
      }
      rows.window.store_state(args.conv_state, slot);
      store_channels(args.ssm_state, slot, rows.state);
    }
  }

 private:
  void normalize(double* x, int64_t count, const fk_in* weight_or_null) const {
    if (weight_or_null) rms_normalize(x, count, init.eps, weight_or_null, rows.row);
  }
  // One token: reads x[C], advances the states and writes out[C].
  void token(const double* x, double* out) {
    const int64_t inner = init.intermediate_size, rank = init.time_step_rank;
    const int64_t size = init.state_size;
    matrix_vector(weights.in_proj, 0, 2 * inner, init.hidden_size, weights.in_proj_bias.or_null, x,
                  rows.projected);
    const double* z = rows.projected + inner;
    std::copy_n(rows.projected, inner, rows.window.next());
    rows.window.convolve(weights.conv, weights.conv_bias.or_null, silu_after, rows.mixed);
    matrix_vector(weights.x_proj, 0, rank + 2 * size, inner, nullptr, rows.mixed, rows.selected);
    double *b = rows.selected + rank, *c = b + size;
    normalize(rows.selected, rank, weights.dt_norm.or_null);
    normalize(b, size, weights.b_norm.or_null);
    normalize(c, size, weights.c_norm.or_null);
    matrix_vector(weights.dt_proj, 0, inner, rank, weights.dt_bias, rows.selected, rows.dt);
    const StepSize step_size;
    for (int64_t i = 0; i < inner; ++i) {
      const double sum = selective_step(rows.state + i * size, size, step_size(rows.dt[i]),
                                        data<float>(weights.a) + i * size, rows.mixed[i], b, c);
      rows.mixed[i] = (sum + element_or(weights.d, i, 0) * rows.mixed[i]) * silu(z[i]);
    }
    matrix_vector(weights.out_proj, 0, init.hidden_size, inner, weights.out_proj_bias.or_null,
                  rows.mixed, out);
  }
};

}  // namespace fk::reference
