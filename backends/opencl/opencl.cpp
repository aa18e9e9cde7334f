// SPDX-License-Identifier: Apache-2.0
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "backends/opencl/device.hpp"
#include "backends/opencl/kernels.hpp"

namespace fk_opencl {

namespace {

constexpr size_t kAlignment = 256;

// All devices of all platforms, in the order of the loader.
std::vector<cl_device_id> all_devices() {
  cl_uint count = 0;
  if (clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS || !count) return {};
  std::vector<cl_platform_id> platforms(count);
  check(clGetPlatformIDs(count, platforms.data(), nullptr), "cannot list the platforms");
  std::vector<cl_device_id> out;
  for (cl_platform_id platform : platforms) {
    cl_uint found = 0;
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &found) != CL_SUCCESS) continue;
    const size_t before = out.size();
    out.resize(before + found);
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, found, out.data() + before, nullptr),
          "cannot list the devices");
  }
  return out;
}

cl_device_id device_at(int32_t index) {
  const auto all = all_devices();
  if (index < 0 || static_cast<size_t>(index) >= all.size())
    throw std::runtime_error("there is no device with this number");
  return all[static_cast<size_t>(index)];
}

int32_t usable_cores() {
  cpu_set_t cores;
  return ::sched_getaffinity(0, sizeof cores, &cores) == 0 ? std::max(1, CPU_COUNT(&cores)) : 1;
}

}  // namespace

int32_t OpenCl::count(fk_error& why_none) {
  const auto all = all_devices();
  if (all.empty())
    fk_fail(&why_none, FK_OK, "the OpenCL loader finds no platform (pocl-opencl-icd is one)");
  return static_cast<int32_t>(all.size());
}

void OpenCl::describe(int32_t index, fk_device_info& info) {
  cl_device_id device = device_at(index);
  info.cpu_threads = usable_cores();
  info.memory_bytes =
      static_cast<int64_t>(fk_opencl::info<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_SIZE));
  info.flags = FK_DEVICE_HOST_READS;
  std::snprintf(info.name, sizeof info.name, "%s", text_of(device, CL_DEVICE_NAME).c_str());
  std::snprintf(info.driver, sizeof info.driver, "%s, %s",
                text_of(device, CL_DEVICE_VERSION).c_str(),
                text_of(device, CL_DRIVER_VERSION).c_str());
}

OpenCl::OpenCl(int32_t index) : device_(device_at(index)) {
  const auto svm = info<cl_device_svm_capabilities>(device_, CL_DEVICE_SVM_CAPABILITIES);
  if (!(svm & CL_DEVICE_SVM_FINE_GRAIN_BUFFER))
    throw std::runtime_error(
        "its kernels share no fine-grained memory with the host "
        "(a device with CL_DEVICE_SVM_FINE_GRAIN_BUFFER)");
  cl_int status = CL_SUCCESS;
  context_ = clCreateContext(nullptr, 1, &device_, nullptr, nullptr, &status);
  check(status, "cannot make a context");
  queue_ = new_queue();
}

OpenCl::~OpenCl() {
  clFinish(queue_);
  if (uploaded_) clReleaseEvent(uploaded_);
  for (const auto& [memory, block] : own_) clSVMFree(context_, block);
  clReleaseCommandQueue(queue_);
  clReleaseContext(context_);
}

// clSVMAlloc() refuses alignments above the largest type of the device, 128 bytes.
void* OpenCl::allocate(int64_t bytes) {
  auto room = static_cast<size_t>(bytes) + kAlignment;
  void* const block =
      clSVMAlloc(context_, CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER, room, 0);
  if (!block) throw std::runtime_error("clSVMAlloc() gives none");
  void* memory = block;
  std::align(kAlignment, static_cast<size_t>(bytes), memory, room);
  own_.emplace(memory, block);
  return memory;
}

void OpenCl::release(void* memory) {
  synchronize();
  if (const auto own = own_.find(memory); own != own_.end()) {
    clSVMFree(context_, own->second);
    own_.erase(own);
  }
}

void OpenCl::upload(void* to, const void* host, int64_t bytes) {
  transfer(to, host, bytes, CL_TRUE, "clEnqueueSVMMemcpy");
}
void OpenCl::upload_later(void* to, const void* host, int64_t bytes) {
  transfer(to, host, bytes, CL_FALSE, "clEnqueueSVMMemcpy");
}
void OpenCl::uploads_enqueued() {
  if (uploaded_) clReleaseEvent(std::exchange(uploaded_, nullptr));
  check(clEnqueueMarkerWithWaitList(queue_, 0, nullptr, &uploaded_), "mark uploads");
  check(clFlush(queue_), "start uploads");
}
void OpenCl::wait_for_uploads() {
  if (uploaded_) check(clWaitForEvents(1, &uploaded_), "wait for uploads");
}
void OpenCl::download(void* host, const void* from, int64_t bytes) {
  transfer(host, from, bytes, CL_TRUE, "clEnqueueSVMMemcpy");
  if (!bytes) synchronize();
}
void OpenCl::download_later(void* host, const void* from, int64_t bytes) {
  transfer(host, from, bytes, CL_FALSE, "clEnqueueSVMMemcpy");
}
void OpenCl::copy(void* to, const void* from, int64_t bytes) {
  transfer(to, from, bytes, CL_FALSE, "clEnqueueSVMMemcpy");
}
void OpenCl::fill(void* to, int32_t byte, int64_t bytes) {
  const auto pattern = static_cast<unsigned char>(byte);
  if (bytes)
    check(clEnqueueSVMMemFill(queue_, to, &pattern, 1, static_cast<size_t>(bytes), 0, nullptr,
                              nullptr),
          "clEnqueueSVMMemFill");
}
void OpenCl::synchronize() { check(clFinish(queue_), "clFinish"); }

// Tries once for the device if a kernel reads and writes memory of the host's address space.
void OpenCl::accept_mapping(void*, int64_t, int32_t) {
  if (mappings_tried_) return;
  constexpr size_t kBytes = 4096;
  void* const page =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) throw std::runtime_error("no memory for a trial");
  auto* const word = static_cast<uint64_t*>(page);
  word[0] = 0x0123456789abcdef;
  Kernels(context_, device_).copy_word(queue_, word, word + 1);
  synchronize();
  mappings_tried_ = word[1] == word[0];
  ::munmap(page, kBytes);
  if (!mappings_tried_) throw std::runtime_error("a kernel wrote nothing to a mapping of the host");
}

cl_command_queue OpenCl::new_queue() {
  const cl_queue_properties properties[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0};
  cl_int status = CL_SUCCESS;
  cl_command_queue queue =
      clCreateCommandQueueWithProperties(context_, device_, properties, &status);
  check(status, "cannot make a queue");
  return queue;
}

void OpenCl::transfer(void* to, const void* from, int64_t bytes, cl_bool wait, const char* what) {
  if (bytes)
    check(
        clEnqueueSVMMemcpy(queue_, wait, to, from, static_cast<size_t>(bytes), 0, nullptr, nullptr),
        what);
}

}  // namespace fk_opencl

FK_BACKEND_OF(fk_opencl::OpenCl, "opencl", "0.1.0");
