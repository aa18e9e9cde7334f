// SPDX-License-Identifier: Apache-2.0
// The kernels of the communicator of CUDA devices: simple ones, for where no library is asked.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/comm/meeting.hpp"

namespace fk::cuda {

// By rank, as this rank's device sees them.
struct RankPointers {
  void* at[kRanksMax];
};

// Nobody goes on before all ranks are here. pads.at[r]: a word for each rank, zero at first;
// `count`: this rank's own word, zero at first. A rank that does not come within the patience ends
// the context of those who wait, on the device.
cudaError_t barrier(const RankPointers& pads, uint32_t* count, int rank, int size,
                    double patience_s, cudaStream_t stream);
// out[i] = from.at[0][i] op from.at[1][i] op ... in this order, in float32 (float64 and whole
// numbers in their own kind). `dtype` as FK_DTYPE; cudaErrorInvalidValue for one without
// arithmetic.
cudaError_t reduce(const RankPointers& from, int size, void* out, int dtype, int64_t count,
                   int64_t op, cudaStream_t stream);

}  // namespace fk::cuda
