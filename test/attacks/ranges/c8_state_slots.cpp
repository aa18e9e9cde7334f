// SPDX-License-Identifier: Apache-2.0
// C8: selective_state_update that reads slots of states as numbers of 8 bits
//
// Stopped by: a range case with more slots than 16 bits count
//
// size: full
//
// verdict: wrong violation
//
// naive: -
//
// work: broken
#include <vector>
#define FK_REFERENCE "baselines/reference/recurrence/selective_state_update.cpp"
#include "../reference.hpp"

namespace {

struct EightBits : fk::reference::SelectiveStateUpdate {
  using SelectiveStateUpdate::SelectiveStateUpdate;
  void forward(const fk::selective_state_update::forward& args, const fk_ctx& ctx) {
    std::vector<int32_t> slots;
    for (int64_t b = 0; b < args.state_slots->shape[0]; ++b)
      slots.push_back(static_cast<uint8_t>(fk::data<int32_t>(args.state_slots)[b]));
    fk_in view = *args.state_slots;
    view.data = slots.data();
    auto own = args;
    own.state_slots = &view;
    SelectiveStateUpdate::forward(own, ctx);
  }
};
FK_OP(selective_state_update, EightBits);

}  // namespace
FK_PLUGIN("c8_state_slots", "0");
