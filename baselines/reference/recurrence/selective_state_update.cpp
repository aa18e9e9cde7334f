// SPDX-License-Identifier: Apache-2.0
// selective_state_update: one step of the recurrence (SsdHeads in recurrence.hpp) for each request
// and head.
#include "fk/ops/selective_state_update.h"
#include "recurrence.hpp"

namespace fk::reference {
namespace {

struct SelectiveStateUpdate : SsdHeads<selective_state_update> {
  using SsdHeads::SsdHeads, SsdHeads::init;
  void forward(const fk::selective_state_update::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init);
    for (int64_t r = 0; r < args.state_slots->shape[0]; ++r)
      scan(args, r, r + 1, index<int32_t>(args.state_slots, r), false, rows);
  }
};
FK_OP(selective_state_update, SelectiveStateUpdate);

}  // namespace
}  // namespace fk::reference
