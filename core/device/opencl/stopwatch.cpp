// SPDX-License-Identifier: Apache-2.0
#include "core/device/opencl/stopwatch.hpp"

#include <algorithm>
#include <utility>

#include "core/base/error.hpp"
#include "core/device/opencl/kernels.hpp"

namespace fk::opencl {

namespace {

class Markers final : public Stopwatch {
 public:
  Markers(cl_context context, cl_device_id device, cl_command_queue queue)
      : context_(context), queue_(queue), kernels_(context, device) {
    const auto cache = info<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE);
    bytes_ = static_cast<size_t>(std::clamp<cl_ulong>(2 * cache, kLeast, kMost));
  }
  ~Markers() override {
    clFinish(queue_);
    forget(start_), forget(stop_);
    if (memory_) clSVMFree(context_, memory_);
  }
  void flush() override {
    if (!memory_) make();
    for (int pass = 0; pass < passes_; ++pass)
      kernels_.read(queue_, memory_, static_cast<int64_t>(bytes_),
                    static_cast<unsigned char*>(memory_) + bytes_);
    check(clFlush(queue_), "flush caches");
  }
  void fix_passes(int passes) override { passes_ = std::max(1, passes); }
  void start() override { mark(start_); }
  void stop() override {
    // The device has passed the start before the host has enqueued the work: it may have waited.
    cl_int state = CL_QUEUED;
    check(clGetEventInfo(start_, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, nullptr),
          "read an event");
    late_ = state == CL_COMPLETE;
    mark(stop_);
  }
  double seconds() override {
    check(clFinish(queue_), "timed work failed");
    return static_cast<double>(end_of(stop_) - end_of(start_)) * 1e-9;
  }
  bool late() const override { return late_; }

 private:
  static constexpr cl_ulong kLeast = cl_ulong{8} << 20, kMost = cl_ulong{256} << 20;

  void mark(cl_event& event) {
    forget(event);
    check(clEnqueueMarkerWithWaitList(queue_, 0, nullptr, &event), "mark a time");
    check(clFlush(queue_), "mark a time");
  }
  static void forget(cl_event& event) {
    if (event) clReleaseEvent(std::exchange(event, nullptr));
  }
  static cl_ulong end_of(cl_event event) {
    cl_ulong at = 0;  // nanoseconds of the device's clock
    check(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof at, &at, nullptr),
          "read a time");
    return at;
  }
  // Made on first use, because writing it takes as long as many flushes.
  void make() {
    memory_ = clSVMAlloc(context_, CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER,
                         bytes_ + Kernels::kItems * sizeof(cl_ulong), 0);
    if (!memory_) fail("opencl", "no memory to flush caches with");
    std::fill_n(static_cast<unsigned char*>(memory_), bytes_, static_cast<unsigned char>(1));
  }

  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  Kernels kernels_;
  void* memory_ = nullptr;
  size_t bytes_ = 0;
  int passes_ = 1;
  cl_event start_ = nullptr, stop_ = nullptr;
  bool late_ = false;
};

}  // namespace

std::unique_ptr<Stopwatch> stopwatch(cl_context context, cl_device_id device,
                                     cl_command_queue queue) {
  return std::make_unique<Markers>(context, device, queue);
}

}  // namespace fk::opencl
