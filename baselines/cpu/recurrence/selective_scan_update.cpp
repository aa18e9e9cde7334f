// SPDX-License-Identifier: Apache-2.0
// selective_scan_update: the kernel of selective_scan (selective.hpp) with one token per request.
#include "selective.hpp"

#ifdef FK_CPU_OPS
#include "fk/ops/selective_scan_update.h"

namespace fk::cpu {

struct SelectiveScanUpdateOp : SelectiveOp<fk::selective_scan_update> {
  using SelectiveOp::SelectiveOp;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    // Token b belongs to request b.
    run(args, ctx.scratch, [](int64_t b, int64_t& first, int64_t& last, bool&) {
      first = b;
      last = b + 1;
    });
  }
};
FK_OP(selective_scan_update, SelectiveScanUpdateOp);

}  // namespace fk::cpu
#endif
