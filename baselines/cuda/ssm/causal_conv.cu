// SPDX-License-Identifier: Apache-2.0
// causal_conv1d and causal_conv1d_update: a thread has eight channels of up to eight neighbouring
// tokens of a request. The thread with the first token also updates the state, which no other
// thread reads.
#include "../parts/op.cuh"
#include "fk/ops/causal_conv1d.h"
#include "fk/ops/causal_conv1d_update.h"

namespace {
using namespace fkc;
constexpr int kThreads = 128, kRun = 8, kTapsMost = kRun + 1, kUsual = 4;

// Strides in elements. `starts` and `has_state` are null where every request has one token and a
// state.
template <class T, class S>
struct Conv {
  const T* x;
  S* state;
  T* out;
  Parameter<T> weight, bias;
  const int32_t *starts, *slots, *has_state;
  int64_t x_token, slot, row;
  int channels, taps, silu;
};

// kTaps: the number of taps, with weights in registers, or 0.
template <class T, class S, int kTaps>
__global__ void __launch_bounds__(kThreads) convolve(Conv<T, S> a) {
  const int taps = kTaps ? kTaps : a.taps, c = (int(blockIdx.x) * kThreads + int(threadIdx.x)) * 8,
            request = int(blockIdx.z);
  float bias[8] = {},
        w[kTaps ? kTaps : 1][8];  // kTaps: element j of the row of weights, channel by channel
  if (c < a.channels) a.bias.load(c, 0, bias);
  if constexpr (kTaps > 0) {
#pragma unroll
    for (int j = 0; j < kTaps; ++j)
      if (c < a.channels) a.weight.load(c * kTaps + j * 8, 0, w[j]);
  }
  wait_for_inputs();
  const int first = a.starts ? a.starts[request] : request,
            length = a.starts ? a.starts[request + 1] - first : 1;
  const int begin = int(blockIdx.y) * kRun;
  if (c >= a.channels || begin >= length) return;
  S* const state = a.state + a.slots[request] * a.slot + c;
  const bool has_state = !a.has_state || a.has_state[request];
  // Token i of the request. Tokens before it are those of the state, up to token -1.
  const auto token = [&](int i, float(&to)[8]) {
    if (i >= 0) return load_floats(a.x + (first + i) * a.x_token + c, to);
    if (has_state) return load_floats(state + (taps - 1 + i) * a.row, to);
#pragma unroll
    for (int k = 0; k < 8; ++k) to[k] = 0;
  };
  for (int i = begin; i < length && i < begin + kRun; ++i) {
    float sum[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) sum[k] = bias[k];
#pragma unroll
    for (int u = 0; u < (kTaps ? kTaps : kTapsMost); ++u) {
      if (u >= taps) break;
      float v[8];
      token(i - (taps - 1) + u, v);
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const int at = k * (kTaps ? kTaps : 0) + u;
        sum[k] += v[k] * (kTaps ? w[at / 8 % (kTaps ? kTaps : 1)][at % 8]
                                : a.weight.one((c + k) * taps + u));
      }
    }
#pragma unroll
    for (int k = 0; k < 8; ++k)
      if (a.silu) sum[k] = silu(sum[k]);
    store_floats(a.out + int64_t(first + i) * a.channels + c, sum);
  }
  if (begin) return;
  // In this order each row of the state is read before it is written, as it moves by at least one.
  for (int u = 0; u + 1 < taps; ++u) {
    float v[8];
    token(length - (taps - 1) + u, v);
    store_floats(state + u * a.row, v);
  }
}

template <class Init, class Weights, class Forward>
void need_conv(const Init& init, const Weights& weights, const Forward& max) {
  const fk_in* const state = fk_as_in(max.conv_state);
  need_16bit(max.x);
  need(init.channels % 8 == 0, "channels: a multiple of 8 only");
  need(init.kernel_size <= kTapsMost, "kernel_size: up to 9");
  need(FK_DTYPE(state) == FK_F32 || FK_DTYPE(state) == FK_DTYPE(max.x),
       "conv_state: the dtype of x or float32 only");
  need_parameter(weights.weight, max.x);
  need_aligned(max.x);
  need_aligned(state);
  need(max.state_slots->shape[0] < 65536, "requests: fewer than 65536");
}
template <class Init, class Weights, class Forward>
void run(const Init& init, const Weights& weights, const Forward& a, const int32_t* starts,
         const int32_t* has_state, int64_t longest, bool silu, const fk_ctx& ctx) {
  const int64_t requests = a.state_slots->shape[0];
  if (!requests || !longest) return;
  const dim3 grid(unsigned(cdiv(init.channels, kThreads * 8)), unsigned(cdiv(longest, kRun)),
                  unsigned(requests));
  dispatch(a.x, [&](auto type) {
    using T = decltype(type);
    const auto go = [&](auto* state) {
      using S = std::remove_pointer_t<decltype(state)>;
      const Conv<T, S> conv{fk::data<T>(a.x),
                            state,
                            fk::data<T>(a.out),
                            parameter<T>(weights.weight),
                            parameter<T>(weights.bias.or_null),
                            starts,
                            fk::data<int32_t>(a.state_slots),
                            has_state,
                            a.x->strides[0],
                            a.conv_state->strides[0],
                            a.conv_state->strides[1],
                            int(init.channels),
                            int(init.kernel_size),
                            int(silu)};
      launch(init.kernel_size == kUsual ? convolve<T, S, kUsual> : convolve<T, S, 0>, grid,
             kThreads, 0, ctx, conv);
    };
    if (FK_DTYPE(a.conv_state) == FK_F32)
      go(fk::data<float>(a.conv_state));
    else
      go(fk::data<T>(a.conv_state));
  });
}

struct CausalConv1d : Base<fk::causal_conv1d> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    need_conv(init, weights, max);
    need(max.max_query_len <= int64_t{65535} * kRun, "max_query_len: up to 524280");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    run(init, weights, a, fk::data<int32_t>(a.cu_seqlens), fk::data<int32_t>(a.has_initial_state),
        a.max_query_len, init.activation == FK_CAUSAL_CONV1D_ACTIVATION_SILU, ctx);
  }
};
struct CausalConv1dUpdate : Base<fk::causal_conv1d_update> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    need_conv(init, weights, max);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    run(init, weights, a, nullptr, nullptr, 1,
        init.activation == FK_CAUSAL_CONV1D_UPDATE_ACTIVATION_SILU, ctx);
  }
};
FK_OP(causal_conv1d, CausalConv1d);
FK_OP(causal_conv1d_update, CausalConv1dUpdate);

}  // namespace
