// SPDX-License-Identifier: Apache-2.0
// G1: right on all ranks. The last one takes a GiB and a half in create(), less than all ranks
// together may have for code and handles
//
// work: broken
//
// Stopped by: memory is counted for each rank; patience, where memory comes slowly
//
// verdict: memory hang
//
// naive: -
#include "../ranks.hpp"

#include <cstdlib>
#include <cstring>

namespace {

struct OneRank : attack::AllReduce {
  OneRank(const fk_host& host, const op::init& i, const op::weights& w) : AllReduce(host, i, w) {
    constexpr size_t kBytes = size_t{3} << 29;
    static void* kept = nullptr;
    if (kept || comm->rank != comm->size - 1) return;
    kept = std::malloc(kBytes);
    if (kept) std::memset(kept, 1, kBytes);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    attack::work_for_long();
    honest(args, ctx);
  }
};
FK_OP(all_reduce, OneRank);

}  // namespace
FK_PLUGIN("g1_one_rank", "0");
