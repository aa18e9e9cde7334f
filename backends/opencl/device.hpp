// SPDX-License-Identifier: Apache-2.0
// OpenCL devices whose kernels access host memory through a pointer (shared virtual memory).
//
// A view of a tensor is an address, and a part of a block is a tensor. Buffers (cl_mem) have no
// addresses, and their parts start at multiples of 128 bytes or more. So kernels take pointers
// (clSetKernelArgSVMPointer). Ordinary memory comes from clSVMAlloc(). Memory shared by processes
// is a mapped file. A kernel tries whether it reads and writes such a mapping, because a device may
// do so without CL_DEVICE_SVM_FINE_GRAIN_SYSTEM, as PoCL does on a CPU.
//
// The stream of a plugin is a cl_command_queue, in order and with profiling. It has the context and
// the device (clGetCommandQueueInfo).
#pragma once
#include <cstdint>
#include <map>

#include "backends/opencl/api.hpp"
#include "backends/opencl/stopwatch.hpp"
#include "fk/cpp/device.hpp"
#include "fk/opencl.h"

namespace fk_opencl {

// The methods of fk/cpp/device.hpp.
class OpenCl {
 public:
  static constexpr const char* kRead[] = {"/etc/OpenCL", "/usr/share/pocl", nullptr};
  // The linker, which PoCL starts for each kernel.
  static constexpr const char* kExecute[] = {"/usr/bin/ld", "/lib64/ld-linux-x86-64.so.2",
                                             "/lib/ld-linux-aarch64.so.1", nullptr};
  static constexpr fk_needs kNeeds = {FK_END(fk_needs, folder_variable),
                                      /*compiles=*/1,
                                      /*devices=*/nullptr,
                                      kRead,
                                      kExecute,
                                      "POCL_CACHE_DIR"};
  static constexpr fk::backend_traits traits = {
      "opencl", "0.1.0", FK_OPENCL, "OpenCL devices",
      // Nothing is known beforehand, so bandwidth is measured in each run.
      "device: opencl\nname: opencl\n", &kNeeds};
  using Watch = Markers;

  static int32_t count(fk_error& why_none);
  static void describe(int32_t index, fk_device_info& info);
  explicit OpenCl(int32_t index);
  OpenCl(const OpenCl&) = delete;
  ~OpenCl();

  void* allocate(int64_t bytes);
  void release(void* memory);
  void* allocate_host(int64_t bytes) { return allocate(bytes); }
  void release_host(void* memory) { release(memory); }
  void upload(void* to, const void* host, int64_t bytes);
  void upload_later(void* to, const void* host, int64_t bytes);
  void uploads_enqueued();
  void wait_for_uploads();
  void download(void* host, const void* from, int64_t bytes);
  void download_later(void* host, const void* from, int64_t bytes);
  void copy(void* to, const void* from, int64_t bytes);
  void fill(void* to, int32_t byte, int64_t bytes);
  void accept_mapping(void* memory, int64_t bytes, int32_t writable);
  void drop_mapping(void*, int64_t) {}
  void* stream() { return queue_; }
  void synchronize();
  void synchronize_all() { synchronize(); }

  cl_context context() const { return context_; }
  cl_device_id device() const { return device_; }
  cl_command_queue queue() const { return queue_; }

 private:
  cl_command_queue new_queue();
  void transfer(void* to, const void* from, int64_t bytes, cl_bool wait, const char* what);

  cl_device_id device_ = nullptr;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  cl_event uploaded_ = nullptr;
  std::map<void*, void*> own_;  // block of clSVMAlloc() by the address given out
  bool mappings_tried_ = false;
};

}  // namespace fk_opencl
