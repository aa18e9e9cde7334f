// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/stopwatch.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "backends/opencl/device.hpp"

namespace fk_opencl {

namespace {

constexpr cl_ulong kLeast = cl_ulong{8} << 20, kMost = cl_ulong{256} << 20;

void forget(cl_event& event) {
  if (event) clReleaseEvent(std::exchange(event, nullptr));
}

cl_ulong end_of(cl_event event) {
  cl_ulong at = 0;  // nanoseconds of the device's clock
  check(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof at, &at, nullptr),
        "read a time");
  return at;
}

}  // namespace

Markers::Markers(OpenCl& device)
    : context_(device.context()),
      queue_(device.queue()),
      kernels_(device.context(), device.device()) {
  const auto cache = info<cl_ulong>(device.device(), CL_DEVICE_GLOBAL_MEM_CACHE_SIZE);
  bytes_ = static_cast<size_t>(std::clamp<cl_ulong>(2 * cache, kLeast, kMost));
}

Markers::~Markers() {
  clFinish(queue_);
  forget(start_), forget(stop_);
  if (memory_) clSVMFree(context_, memory_);
}

void Markers::flush(int32_t) {
  if (!memory_) make();
  for (int pass = 0; pass < passes_; ++pass)
    kernels_.read(queue_, memory_, static_cast<int64_t>(bytes_),
                  static_cast<unsigned char*>(memory_) + bytes_);
  check(clFlush(queue_), "flush caches");
}

void Markers::passes(int32_t passes) { passes_ = std::max(1, passes); }

void Markers::start() { mark(start_); }

void Markers::stop() {
  // The device has passed the start before the host has enqueued the work: it may have waited.
  cl_int state = CL_QUEUED;
  check(clGetEventInfo(start_, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, nullptr),
        "read an event");
  late_ = state == CL_COMPLETE;
  mark(stop_);
}

void Markers::seconds(double* seconds, int32_t* late) {
  check(clFinish(queue_), "timed work failed");
  *seconds = static_cast<double>(end_of(stop_) - end_of(start_)) * 1e-9;
  *late = late_;
}

void Markers::mark(cl_event& event) {
  forget(event);
  check(clEnqueueMarkerWithWaitList(queue_, 0, nullptr, &event), "mark a time");
  check(clFlush(queue_), "mark a time");
}

// Made on first use, because writing it takes as long as many flushes.
void Markers::make() {
  memory_ = clSVMAlloc(context_, CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER,
                       bytes_ + Kernels::kItems * sizeof(cl_ulong), 0);
  if (!memory_) throw std::runtime_error("no memory to flush caches with");
  std::fill_n(static_cast<unsigned char*>(memory_), bytes_, static_cast<unsigned char>(1));
}

}  // namespace fk_opencl
