// SPDX-License-Identifier: Apache-2.0
// C12: ssd_chunk_scan that multiplies the state of a request that begins without one by 0, which
// stays NaN where it was
//
// Stopped by: states that are not read hold NaN and infinities
//
// verdict: wrong
//
// naive: -
//
// work: broken
#include <vector>
#define FK_REFERENCE "baselines/reference/recurrence/ssd_chunk_scan.cpp"
#include "../reference.hpp"

namespace {

using namespace fk::reference;
struct TimesZero : SsdChunkScan {
  using SsdChunkScan::SsdChunkScan;
  void forward(const fk::ssd_chunk_scan::forward& args, const fk_ctx& ctx) {
    const int64_t heads = init.num_heads, width = init.head_dim, size = init.state_size;
    std::vector<double> state(size_t(width * size));
    for (int64_t b = 0; b < args.state_slots->shape[0]; ++b) {
      if (index<int32_t>(args.has_initial_state, b) != 0 ||
          index<int32_t>(args.cu_seqlens, b) == index<int32_t>(args.cu_seqlens, b + 1))
        continue;
      for (int64_t h = 0; h < heads; ++h) {
        load_head(args.ssm_state, index<int32_t>(args.state_slots, b), h, state.data());
        for (double& v : state) v *= 0;
        store_head(args.ssm_state, index<int32_t>(args.state_slots, b), h, state.data());
      }
    }
    const std::vector<int32_t> all(size_t(args.state_slots->shape[0]), 1);
    fk_in there = *args.has_initial_state;
    there.data = all.data();
    fk::ssd_chunk_scan::forward own = args;
    own.has_initial_state = &there;
    SsdChunkScan::forward(own, ctx);
  }
};
FK_OP(ssd_chunk_scan, TimesZero);

}  // namespace
FK_PLUGIN("c12_times_zero", "0");
