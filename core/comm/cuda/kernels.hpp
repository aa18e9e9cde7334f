// SPDX-License-Identifier: Apache-2.0
// Kernels for the communicator of CUDA devices where NCCL cannot be used.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/comm/meeting.hpp"

namespace fk::cuda {

// Pointers by rank, in this rank's device addresses.
struct RankPointers {
  void* at[kRanksMax];
};

// Waits on the device until all ranks are here. pads.at[r]: rank r's pad, with a zeroed word for
// each rank; `count`: this rank's own zeroed word. If a rank does not come within `patience_s`, the
// kernels of waiting ranks end their contexts.
cudaError_t barrier(const RankPointers& pads, uint32_t* count, int rank, int size,
                    double patience_s, cudaStream_t stream);
// out[i] = from.at[0][i] op from.at[1][i] op ... in this order. It computes in float32, for float64
// and whole numbers in their own type. `dtype` as FK_DTYPE; cudaErrorInvalidValue for a dtype
// without arithmetic.
cudaError_t reduce(const RankPointers& from, int size, void* out, int dtype, int64_t count,
                   int64_t op, cudaStream_t stream);

}  // namespace fk::cuda
