// SPDX-License-Identifier: Apache-2.0
// The stopwatch of CUDA devices: events around the work, and a kernel that reads memory.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>

#include "core/device/stopwatch.hpp"

namespace fk {

// Times work on `stream` of the current device. The same device must be current at each use. Error
// when its memory cannot be allocated.
std::unique_ptr<Stopwatch> cuda_stopwatch(cudaStream_t stream);

}  // namespace fk
