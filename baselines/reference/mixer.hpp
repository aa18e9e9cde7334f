// SPDX-License-Identifier: Apache-2.0
// The mixer of Mamba 2: input projection, convolution over the last tokens, recurrence, gated norm
// and output projection. It runs token by token for each request, without rounding between the
// steps. States are read and written once per request.
#pragma once
#include "recurrence.hpp"

namespace fk::reference {

// Widths: of the heads' inputs x; of the convolution (x, b, c); of the input projection (z, x, b,
// c, dt).
struct MixerSizes {
  int64_t inner, conv, in;
  template <class Init>
  explicit MixerSizes(const Init& i)
      : inner(i.num_heads * i.head_dim),
        conv(inner + 2 * i.num_groups * i.state_size),
        in(inner + conv + i.num_heads) {}
};

// Rows of scratch (op.hpp) for Mixer.
struct MixerRows {
  ConvWindow window;
  double *projected, *mixed, *state, *y, *row;
  template <class Init>
  MixerRows(Scratch& s, const Init& i)
      : window(s, i.kernel_size, MixerSizes(i).conv),
        projected(s.take(MixerSizes(i).in)),
        mixed(s.take(MixerSizes(i).conv)),
        state(s.take(MixerSizes(i).inner * i.state_size)),
        y(s.take(MixerSizes(i).inner)),
        row(s.take(std::max(MixerSizes(i).inner, i.hidden_size))) {}
};

// Refuses dtypes and sizes that Mixer does not take.
template <class Init, class Weights, class Forward>
void need_mixer(const Init& init, const Weights& weights, const Forward& max) {
  need_floats(weights.in_proj, weights.in_proj_bias.or_null, weights.conv,
              weights.conv_bias.or_null, weights.d, weights.dt_bias, weights.norm, weights.out_proj,
              weights.out_proj_bias.or_null, max.conv_state, max.ssm_state);
  if (init.num_heads % init.num_groups)
    throw unsupported{"num_heads is not a multiple of num_groups"};
  if (init.num_heads * init.head_dim % init.norm_group_size)
    throw unsupported{"norm_group_size does not divide num_heads * head_dim"};
}

template <class Init, class Weights, class Forward>
struct Mixer {
  const Init& init;
  const Weights& weights;
  const Forward& args;
  MixerRows& rows;
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
      load_states(!has_state || index<int32_t>(has_state, b) ? slot : -1);
      for (int64_t t = first; t < last; ++t) {
        load_token(t, x);
        token(x, out);
        done(t, out);
      }
      store_states(slot);
    }
  }

 private:
  int64_t head_elements() const { return init.head_dim * init.state_size; }
  void load_states(int64_t slot) {
    rows.window.load_state(args.conv_state, slot);
    for (int64_t h = 0; h < init.num_heads; ++h)
      load_head(args.ssm_state, slot, h, rows.state + h * head_elements());
  }
  void store_states(int64_t slot) const {
    rows.window.store_state(args.conv_state, slot);
    for (int64_t h = 0; h < init.num_heads; ++h)
      store_head(args.ssm_state, slot, h, rows.state + h * head_elements());
  }

  // One token: reads x[C], advances the states and writes out[C].
  void token(const double* x, double* out) {
    const MixerSizes sizes(init);
    const StepSize step_size{true, init.dt_min, init.dt_max};
    matrix_vector(weights.in_proj, 0, sizes.in, init.hidden_size, weights.in_proj_bias.or_null, x,
                  rows.projected);
    const double* z = rows.projected;
    const double* dt = z + sizes.inner + sizes.conv;
    std::copy_n(z + sizes.inner, sizes.conv, rows.window.next());
    rows.window.convolve(weights.conv, weights.conv_bias.or_null, silu_after, rows.mixed);
    for (int64_t h = 0; h < init.num_heads; ++h) {
      const int64_t group = h / (init.num_heads / init.num_groups);
      const double* b = rows.mixed + sizes.inner + group * init.state_size;
      ssd_step(rows.state + h * head_elements(), init.head_dim, init.state_size,
               step_size(dt[h] + element_or(weights.dt_bias, h, 0)),
               value(data<float>(weights.a)[h]), element_or(weights.d, h, 0),
               rows.mixed + h * init.head_dim, b, b + init.num_groups * init.state_size,
               rows.y + h * init.head_dim);
    }
    gated_rms_normalize(rows.y, z, sizes.inner, init.norm_group_size, init.eps, false, weights.norm,
                        rows.row);
    matrix_vector(weights.out_proj, 0, init.hidden_size, sizes.inner, weights.out_proj_bias.or_null,
                  rows.y, out);
  }
};

}  // namespace fk::reference
