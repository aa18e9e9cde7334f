// SPDX-License-Identifier: Apache-2.0
// selective_scan: the recurrence (SelectiveChannels in selective.hpp), token by token.
#include "fk/ops/selective_scan.h"
#include "selective.hpp"

namespace fk::reference {
namespace {

struct SelectiveScan : SelectiveChannels<selective_scan> {
  using SelectiveChannels::SelectiveChannels, SelectiveChannels::init;
  void forward(const fk::selective_scan::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init);
    for (int64_t b = 0; b < args.state_slots->shape[0]; ++b) {
      const int64_t first = index<int32_t>(args.cu_seqlens, b);
      const int64_t last = index<int32_t>(args.cu_seqlens, b + 1);
      if (first == last) continue;
      const bool fresh = index<int32_t>(args.has_initial_state, b) == 0;
      scan(args, first, last, index<int32_t>(args.state_slots, b), fresh, rows);
    }
  }
};
FK_OP(selective_scan, SelectiveScan);

}  // namespace
}  // namespace fk::reference
