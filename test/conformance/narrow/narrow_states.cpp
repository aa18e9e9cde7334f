// SPDX-License-Identifier: Apache-2.0
// selective_state_update that computes places of states in 32 bits.
#define FK_REFERENCE "baselines/reference/recurrence/selective_state_update.cpp"
#include "narrow_strides.hpp"
#include "test/attacks/reference.hpp"

namespace {

struct Offsets : fk::reference::SelectiveStateUpdate {
  using SelectiveStateUpdate::SelectiveStateUpdate;
  void forward(const fk::selective_state_update::forward& args, const fk_ctx& ctx) {
    const NarrowStrides states(args.ssm_state);
    auto own = args;
    own.ssm_state = states.view();
    SelectiveStateUpdate::forward(own, ctx);
  }
};
FK_OP(selective_state_update, Offsets);

}  // namespace
FK_PLUGIN("narrow_states", "0");
