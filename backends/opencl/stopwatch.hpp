// SPDX-License-Identifier: Apache-2.0
// The stopwatch of OpenCL devices: profiled markers around the work, and a kernel that reads
// memory.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backends/opencl/kernels.hpp"

namespace fk_opencl {

class OpenCl;

// The methods of fk/cpp/device.hpp. The device must outlive it.
class Markers {
 public:
  explicit Markers(OpenCl& device);
  Markers(const Markers&) = delete;
  ~Markers();
  void flush(int32_t all);
  void passes(int32_t passes);
  void start();
  void stop();
  void seconds(double* seconds, int32_t* late);

 private:
  void make();
  void mark(cl_event& event);

  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  Kernels kernels_;
  void* memory_ = nullptr;
  size_t bytes_ = 0;
  int passes_ = 1;
  cl_event start_ = nullptr, stop_ = nullptr;
  bool late_ = false;
};

}  // namespace fk_opencl
