// SPDX-License-Identifier: Apache-2.0
// The host's own kernels on an OpenCL device, compiled on first use.
#pragma once
#include <cstdint>

#include "backends/opencl/api.hpp"

namespace fk_opencl {

class Kernels {
 public:
  // The context and the device must outlive this object.
  Kernels(cl_context context, cl_device_id device) : context_(context), device_(device) {}
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;
  ~Kernels();

  // Enqueues a read of `bytes` of memory, one word of each cache line. `sums` has kItems words.
  void read(cl_command_queue queue, const void* memory, int64_t bytes, void* sums);
  // Enqueues a copy of one word.
  void copy_word(cl_command_queue queue, const void* from, void* to);

  static constexpr size_t kItems = 64;

 private:
  cl_kernel kernel(const char* name, cl_kernel& kept);

  cl_context context_ = nullptr;
  cl_device_id device_ = nullptr;
  cl_program program_ = nullptr;
  cl_kernel read_ = nullptr, copy_word_ = nullptr;
};

}  // namespace fk_opencl
