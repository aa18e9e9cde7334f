// SPDX-License-Identifier: Apache-2.0
// causal_conv1d_update: as causal_conv1d, with one token per request.
#include "fk/ops/causal_conv1d_update.h"
#include "recurrence.hpp"

namespace fk::reference {
namespace {

struct CausalConv1dUpdate : Base<causal_conv1d_update> {
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
      const int64_t slot = index<int32_t>(args.state_slots, b);
      rows.window.load_state(args.conv_state, slot);
      load(args.x, offset(args.x, b), init.channels, rows.window.next());
      rows.window.convolve(weights.weight, weights.bias.or_null,
                           init.activation == FK_CAUSAL_CONV1D_UPDATE_ACTIVATION_SILU, rows.out);
      store(args.out, offset(args.out, b), init.channels, rows.out);
      rows.window.store_state(args.conv_state, slot);
    }
  }
};
FK_OP(causal_conv1d_update, CausalConv1dUpdate);

}  // namespace
}  // namespace fk::reference
