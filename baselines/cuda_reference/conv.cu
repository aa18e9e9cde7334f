// SPDX-License-Identifier: Apache-2.0
// conv2d, conv_transpose2d, causal_conv1d, causal_conv1d_update: one thread per element of the output, which sums
// over its window in order. States of requests are updated after all outputs.
#include "common.cuh"
#include "fk/ops/causal_conv1d.h"
#include "fk/ops/causal_conv1d_update.h"
#include "fk/ops/conv2d.h"
#include "fk/ops/conv_transpose2d.h"

namespace {
using namespace fkr;

struct Conv2d : Plain<fk::conv2d> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) {
    if (init.in_channels % init.groups || init.out_channels % init.groups) throw fk::unsupported{"groups: does not divide the channels"};
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), weight = ref(weights.weight), bias = ref(weights.bias), out = ref(a.out);
    const int64_t channels = init.in_channels / init.groups, outputs = init.out_channels, of_group = outputs / init.groups;
    const int64_t kh = init.kernel_size->at[0], kw = init.kernel_size->at[1], sh = init.stride->at[0], sw = init.stride->at[1];
    const int64_t ph = init.padding->at[0], pw = init.padding->at[1], dh = init.dilation->at[0], dw = init.dilation->at[1];
    const int64_t high = a.x->shape[1], wide = a.x->shape[2], out_high = a.out->shape[1], out_wide = a.out->shape[2];
    for_each(a.out->shape[0] * out_high * out_wide * outputs, ctx, [=] __device__(int64_t i) {
      const int64_t o = i % outputs, ox = i / outputs % out_wide, oy = i / outputs / out_wide % out_high, b = i / outputs / out_wide / out_high;
      double sum = load_or(bias, o, 0);
      for (int64_t u = 0; u < kh; ++u) {
        for (int64_t v = 0; v < kw; ++v) {
          const int64_t iy = oy * sh - ph + u * dh, ix = ox * sw - pw + v * dw;
          if (iy < 0 || iy >= high || ix < 0 || ix >= wide) continue;
          const int64_t pixel = x.at(b, iy, ix) + o / of_group * channels;
          for (int64_t c = 0; c < channels; ++c) sum += load(weight, ((o * channels + c) * kh + u) * kw + v) * load(x, pixel + c);
        }
      }
      store(out, i, sum);
    });
  }
};

struct ConvTranspose2d : Plain<fk::conv_transpose2d> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) {
    if (init.in_channels % init.groups || init.out_channels % init.groups) throw fk::unsupported{"groups: does not divide the channels"};
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), weight = ref(weights.weight), bias = ref(weights.bias), out = ref(a.out);
    const int64_t channels = init.in_channels / init.groups, outputs = init.out_channels, of_group = outputs / init.groups;
    const int64_t kh = init.kernel_size->at[0], kw = init.kernel_size->at[1], sh = init.stride->at[0], sw = init.stride->at[1];
    const int64_t ph = init.padding->at[0], pw = init.padding->at[1], dh = init.dilation->at[0], dw = init.dilation->at[1];
    const int64_t high = a.x->shape[1], wide = a.x->shape[2], out_high = a.out->shape[1], out_wide = a.out->shape[2];
    for_each(a.out->shape[0] * out_high * out_wide * outputs, ctx, [=] __device__(int64_t i) {
      const int64_t o = i % outputs, ox = i / outputs % out_wide, oy = i / outputs / out_wide % out_high, b = i / outputs / out_wide / out_high;
      double sum = load_or(bias, o, 0);
      for (int64_t u = 0; u < kh; ++u) {
        for (int64_t v = 0; v < kw; ++v) {
          // The pixel of x whose tap (u, v) falls on this pixel of out.
          const int64_t y = oy + ph - u * dh, z = ox + pw - v * dw;
          if (y < 0 || z < 0 || y % sh || z % sw || y / sh >= high || z / sw >= wide) continue;
          const int64_t first = o / of_group * channels, pixel = x.at(b, y / sh, z / sw) + first;
          for (int64_t c = 0; c < channels; ++c)
            sum += load(weight, (((first + c) * of_group + o % of_group) * kh + u) * kw + v) * load(x, pixel + c);
        }
      }
      store(out, i, sum);
    });
  }
};

// Tokens of requests. `starts`: the first token of each, or null if each has one token. has_state:
// null if all have a state.
struct Tokens {
  Ref x, state;
  const int32_t *starts, *slots, *has_state;
  int64_t requests, channels, taps;
  __device__ int64_t begin(int64_t b) const { return starts ? starts[b] : b; }
  __device__ int64_t request_of(int64_t t) const {
    if (!starts) return t;
    int64_t b = 0;
    while (b + 1 < requests && starts[b + 1] <= t) ++b;
    return b;
  }
  // The input of channel c at token t of request b. It may be one of the taps - 1 inputs before the
  // first token.
  __device__ double at(int64_t b, int64_t t, int64_t c) const {
    const int64_t i = t - begin(b);
    if (i >= 0) return load(x, x.at(t) + c);
    return !has_state || has_state[b] ? load(state, state.at(slots[b], taps - 1 + i) + c) : 0;
  }
};
void convolve(const Tokens& tokens, const Ref& weight, const Ref& bias, bool silu_after, const Ref& out, int64_t count, const fk_ctx& ctx) {
  const int64_t channels = tokens.channels, taps = tokens.taps;
  for_each(count * channels, ctx, [=] __device__(int64_t i) {
    const int64_t t = i / channels, c = i % channels;
    if (tokens.starts && t >= tokens.starts[tokens.requests]) return;
    const int64_t b = tokens.request_of(t);
    double sum = load_or(bias, c, 0);
    for (int64_t u = 0; u < taps; ++u) sum += load(weight, c * taps + u) * tokens.at(b, t - (taps - 1) + u, c);
    store(out, i, silu_after ? silu(sum) : sum);
  });
  for_each(tokens.requests * channels, ctx, [=] __device__(int64_t i) {
    const int64_t b = i / channels, c = i % channels, end = tokens.begin(b + 1);
    if (end == tokens.begin(b)) return;
    // In this order each row is read before it is written, as it moves by at least one.
    for (int64_t u = 0; u + 1 < taps; ++u)
      store(tokens.state, tokens.state.at(tokens.slots[b], u) + c, tokens.at(b, end - (taps - 1) + u, c));
  });
}
struct CausalConv1d : Plain<fk::causal_conv1d> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Tokens tokens{ref(a.x), ref(a.conv_state), fk::data<int32_t>(a.cu_seqlens), fk::data<int32_t>(a.state_slots),
                        fk::data<int32_t>(a.has_initial_state), a.state_slots->shape[0], init.channels, init.kernel_size};
    convolve(tokens, ref(weights.weight), ref(weights.bias), init.activation == FK_CAUSAL_CONV1D_ACTIVATION_SILU, ref(a.out),
             a.x->shape[0], ctx);
  }
};
struct CausalConv1dUpdate : Plain<fk::causal_conv1d_update> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Tokens tokens{ref(a.x), ref(a.conv_state), nullptr, fk::data<int32_t>(a.state_slots), nullptr, a.state_slots->shape[0],
                        init.channels, init.kernel_size};
    convolve(tokens, ref(weights.weight), ref(weights.bias), init.activation == FK_CAUSAL_CONV1D_UPDATE_ACTIVATION_SILU, ref(a.out),
             a.x->shape[0], ctx);
  }
};
FK_OP(conv2d, Conv2d);
FK_OP(conv_transpose2d, ConvTranspose2d);
FK_OP(causal_conv1d, CausalConv1d);
FK_OP(causal_conv1d_update, CausalConv1dUpdate);

}  // namespace
