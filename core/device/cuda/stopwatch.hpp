// SPDX-License-Identifier: Apache-2.0
// The stopwatch of CUDA devices: events around the work, and a kernel that reads.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>

#include "core/device/stopwatch.hpp"

namespace fk {

// For work on `stream` of the current device, which it is again when it is used. Error when its
// memory cannot be had.
std::unique_ptr<Stopwatch> cuda_stopwatch(cudaStream_t stream);

}  // namespace fk
