// SPDX-License-Identifier: Apache-2.0
// selective_scan_update: one step of the recurrence (SelectiveChannels in selective.hpp) for each
// request.
#include "fk/ops/selective_scan_update.h"
#include "selective.hpp"

namespace fk::reference {
namespace {

struct SelectiveScanUpdate : SelectiveChannels<selective_scan_update> {
  using SelectiveChannels::SelectiveChannels, SelectiveChannels::init;
  void forward(const fk::selective_scan_update::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init);
    for (int64_t r = 0; r < args.state_slots->shape[0]; ++r)
      scan(args, r, r + 1, index<int32_t>(args.state_slots, r), false, rows);
  }
};
FK_OP(selective_scan_update, SelectiveScanUpdate);

}  // namespace
}  // namespace fk::reference
