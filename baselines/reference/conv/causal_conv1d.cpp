// SPDX-License-Identifier: Apache-2.0
// causal_conv1d: token by token, through a window of the last inputs (ConvWindow in
// recurrence.hpp).
#include "fk/ops/causal_conv1d.h"
#include "recurrence.hpp"

namespace fk::reference {
namespace {

struct CausalConv1d : Base<causal_conv1d> {
  using Base::Base;
  struct Rows {
    ConvWindow window;
    double* out;
    Rows(Scratch& s, const op::init& i)
        : window(s, i.kernel_size, i.channels), out(s.take(i.channels)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.weight, weights.bias.or_null, max.x, max.conv_state, max.out);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    Rows rows(scratch, init);
    for (int64_t b = 0; b < args.state_slots->shape[0]; ++b) {
      const int64_t first = index<int32_t>(args.cu_seqlens, b);
      const int64_t last = index<int32_t>(args.cu_seqlens, b + 1);
      if (first == last) continue;
      const int64_t slot = index<int32_t>(args.state_slots, b);
      rows.window.load_state(args.conv_state,
                             index<int32_t>(args.has_initial_state, b) ? slot : -1);
      for (int64_t t = first; t < last; ++t) {
        load(args.x, offset(args.x, t), init.channels, rows.window.next());
        rows.window.convolve(weights.weight, weights.bias.or_null,
                             init.activation == FK_CAUSAL_CONV1D_ACTIVATION_SILU, rows.out);
        store(args.out, offset(args.out, t), init.channels, rows.out);
      }
      rows.window.store_state(args.conv_state, slot);
    }
  }
};
FK_OP(causal_conv1d, CausalConv1d);

}  // namespace
}  // namespace fk::reference
