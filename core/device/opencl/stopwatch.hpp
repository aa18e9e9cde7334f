// SPDX-License-Identifier: Apache-2.0
// The stopwatch of OpenCL devices: profiled markers around the work, and a kernel that reads
// memory.
#pragma once
#include <memory>

#include "core/device/opencl/api.hpp"
#include "core/device/stopwatch.hpp"

namespace fk::opencl {

// Times work on `queue`, which is in order and has profiling. The context, the device and the queue
// must outlive the stopwatch.
std::unique_ptr<Stopwatch> stopwatch(cl_context context, cl_device_id device,
                                     cl_command_queue queue);

}  // namespace fk::opencl
