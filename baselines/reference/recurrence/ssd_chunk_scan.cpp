// SPDX-License-Identifier: Apache-2.0
// ssd_chunk_scan: the recurrence (SsdHeads in recurrence.hpp), head by head and token by token,
// without chunks.
#include "fk/ops/ssd_chunk_scan.h"
#include "recurrence.hpp"

namespace fk::reference {
namespace {

struct SsdChunkScan : SsdHeads<ssd_chunk_scan> {
  using SsdHeads::SsdHeads, SsdHeads::init;
  void forward(const fk::ssd_chunk_scan::forward& args, const fk_ctx& ctx) {
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
FK_OP(ssd_chunk_scan, SsdChunkScan);

}  // namespace
}  // namespace fk::reference
