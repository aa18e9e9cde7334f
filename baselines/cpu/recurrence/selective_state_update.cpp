// SPDX-License-Identifier: Apache-2.0
// selective_state_update: the kernel of ssd_chunk_scan (ssd.hpp) with one token per request.
#include "ssd.hpp"

#ifdef FK_CPU_OPS
#include "fk/ops/selective_state_update.h"

namespace fk::cpu {

struct SelectiveStateUpdateOp : SsdOp<fk::selective_state_update> {
  using SsdOp::SsdOp;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    // Token b belongs to request b.
    run(args, ctx.scratch, [](int64_t b, int64_t& first, int64_t& last, bool&) {
      first = b;
      last = b + 1;
    });
  }
};
FK_OP(selective_state_update, SelectiveStateUpdateOp);

}  // namespace fk::cpu
#endif
