// SPDX-License-Identifier: Apache-2.0
// Items of several ranks in one row.
#pragma once
#include "experts.cuh"

namespace fkc::experts {

// Items of several ranks, those of one rank after those of another. Whole warps construct and use
// it.
struct Runs {
  int count, end;  // of the rank of this lane
  int ranks, all;
  __device__ Runs(int of_lane, int ranks_) : count(of_lane), end(0), ranks(ranks_) {
    for (int r = 0; r < ranks; ++r) {
      const int of = __shfl_sync(kAll, count, r);
      if (r <= int(threadIdx.x) % 32) end += of;
    }
    all = __shfl_sync(kAll, end, ranks - 1);
  }
  __device__ int of(int rank) const { return __shfl_sync(kAll, count, rank); }
  __device__ int before(int rank) const { return __shfl_sync(kAll, end - count, rank); }
  // The rank of item i, and the item's number within the rank. Behind the last item the result is
  // the last rank.
  __device__ int find(int i, int& own) const {
    const int passed = __popc(__ballot_sync(kAll, int(threadIdx.x) % 32 < ranks && end <= i)),
              rank = passed < ranks ? passed : ranks - 1;
    own = i - before(rank);
    return rank;
  }
};

}  // namespace fkc::experts
