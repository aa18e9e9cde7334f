// SPDX-License-Identifier: Apache-2.0
// Shared by both kernels of linear_all_reduce and linear_reduce_scatter: linear_sum.cu and
// linear_sum_of_two.cuh.
#pragma once
#include "../parts/tma.cuh"
#include "overlapped_gemm.cuh"

namespace fkc::overlap {

constexpr int kStages = 3, kShared = shared_bytes(kStages, true);

template <class T>
struct Arguments {
  T* out;
  int n, k;
  Plan plan;
  Room room;
};

struct OwnRows {
  const CUtensorMap& map;
  const Plan& plan;
  __device__ void begin() const {}
  __device__ void wait(const Pair&) const {}
  __device__ void copy(uint32_t to, int k, const Pair& pair, uint32_t barrier) const {
    tma_load_2d(to, map, k, plan.begin(pair.part) + pair.high * kPair + block_in_cluster() * kHigh,
                barrier);
  }
};

}  // namespace fkc::overlap
