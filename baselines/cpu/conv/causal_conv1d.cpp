// SPDX-License-Identifier: Apache-2.0
// causal_conv1d, and the kernel that it shares with causal_conv1d_update (causal_conv.hpp).
#include "causal_conv.hpp"
#include "math.hpp"

namespace fk::cpu::FK_CPU_LEVEL {

void pack_conv(const void* weight, const void* bias, int type, int64_t channels, int64_t taps,
               float* packed) {
  with_type(type, [&]<class W>() {
    const W* w = static_cast<const W*>(weight);
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t u = 0; u < taps; ++u) packed[u * channels + c] = to_float(w[c * taps + u]);
    const W* from = static_cast<const W*>(bias);
    float* to = packed + taps * channels;
    for (int64_t c = 0; c < channels; ++c) to[c] = from ? to_float(from[c]) : 0.f;
  });
}

// Channels from c on, one vector of them or less; n is Full or a number of lanes.
template <class T, class S, int U, class N>
FK_INLINE void convolve(const CausalConv& a, int64_t first, int64_t last, int64_t slot, bool fresh,
                        int64_t c, N n) {
  const T* x = static_cast<const T*>(a.x) + c;
  T* out = static_cast<T*>(a.out) + c;
  S* state = static_cast<S*>(a.state) + slot * a.slot_stride + c;
  Vf weight[U], window[U];
  for (int u = 0; u < U; ++u) weight[u] = load(a.weight + u * a.channels + c, n);
  const Vf bias = load(a.weight + U * a.channels + c, n);
  for (int u = 0; u + 1 < U; ++u) window[u] = fresh ? Vf{} : load(state + u * a.row_stride, n);
  for (int64_t t = first; t < last; ++t) {
    window[U - 1] = load(x + t * a.x_stride, n);
    Vf sum = bias;
    for (int u = 0; u < U; ++u) sum += weight[u] * window[u];
    if (a.silu) sum = sum / (1.f + exp(-sum));
    store(out + t * a.out_stride, sum, n);
    for (int u = 0; u + 1 < U; ++u) window[u] = window[u + 1];
  }
  for (int u = 0; u + 1 < U; ++u) store(state + u * a.row_stride, window[u], n);
}

void causal_conv(const CausalConv& a, int64_t first, int64_t last, int64_t slot, bool fresh,
                 int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    with_type(a.state_type, [&]<class S>() {
      const auto columns = [&]<int U>() {
        each_vector(end - begin, [&](int64_t i, auto n) {
          convolve<T, S, U>(a, first, last, slot, fresh, begin + i, n);
        });
      };
      if (a.taps == 2)
        columns.template operator()<2>();
      else if (a.taps == 3)
        columns.template operator()<3>();
      else if (a.taps == 4)
        columns.template operator()<4>();
      else
        columns.template operator()<5>();
    });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/causal_conv1d.h"

namespace fk::cpu {

struct CausalConv1dOp : CausalConvOp<fk::causal_conv1d> {
  using CausalConvOp::CausalConvOp;
  void forward(const op::forward& args, const fk_ctx&) {
    const int32_t* starts = data<int32_t>(args.cu_seqlens);
    const int32_t* has_state = data<int32_t>(args.has_initial_state);
    run(args, init_.activation == FK_CAUSAL_CONV1D_ACTIVATION_SILU,
        [&](int64_t b, int64_t& first, int64_t& last, bool& fresh) {
          first = starts[b];
          last = starts[b + 1];
          fresh = has_state[b] == 0;
        });
  }
};
FK_OP(causal_conv1d, CausalConv1dOp);

}  // namespace fk::cpu
#endif
