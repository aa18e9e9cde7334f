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
#include "core/device/opencl/api.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "core/base/cores.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/device/device.hpp"
#include "core/device/opencl/kernels.hpp"
#include "core/device/opencl/stopwatch.hpp"
#include "core/device/shared_mappings.hpp"
#include "fk/opencl.h"

namespace fk {

namespace {

using opencl::check;

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

class OpenCl final : public Device {
 public:
  OpenCl(int index, cl_device_id device) : index_(index), device_(device) {
    name_ = "opencl:" + std::to_string(index) + " " +
            std::string(trim(opencl::text_of(device, CL_DEVICE_NAME)));
    const auto svm = opencl::info<cl_device_svm_capabilities>(device, CL_DEVICE_SVM_CAPABILITIES);
    if (!(svm & CL_DEVICE_SVM_FINE_GRAIN_BUFFER))
      fail(name_, "its kernels share no fine-grained memory with the host",
           "a device with CL_DEVICE_SVM_FINE_GRAIN_BUFFER");
    cl_int status = CL_SUCCESS;
    context_ = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &status);
    check(status, "cannot make a context");
    queue_ = new_queue();
    side_ = new_queue();
  }
  ~OpenCl() override {
    clFinish(queue_);
    if (uploaded_) clReleaseEvent(uploaded_);
    for (const auto& [memory, block] : own_) clSVMFree(context_, block);
    clReleaseCommandQueue(side_);
    clReleaseCommandQueue(queue_);
    clReleaseContext(context_);
  }

  int32_t type() const override { return FK_OPENCL; }
  int32_t id() const override { return index_; }
  std::string name() const override { return name_; }
  int32_t cpu_threads() const override { return usable_cores(); }
  void* stream() override { return queue_; }

  // clSVMAlloc() refuses alignments above the largest type of the device, 128 bytes.
  void* allocate(int64_t bytes, const std::string& purpose) override {
    auto room = static_cast<size_t>(bytes) + kAlignment;
    void* const block =
        clSVMAlloc(context_, CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER, room, 0);
    if (!block)
      fail("memory", "cannot allocate " + human_bytes(bytes) + " of " + name_ + " for " + purpose);
    void* memory = block;
    std::align(kAlignment, static_cast<size_t>(bytes), memory, room);
    own_.emplace(memory, block);
    return memory;
  }
  void release(void* memory) override {
    synchronize();
    if (const auto own = own_.find(memory); own != own_.end()) {
      clSVMFree(context_, own->second);
      own_.erase(own);
    }
  }
  void* allocate_host(int64_t bytes) override { return allocate(bytes, "an input"); }
  void release_host(void* memory) override { release(memory); }

  void upload(void* device, const void* host, int64_t bytes) override {
    transfer(device, host, bytes, CL_TRUE, "upload");
  }
  void download(void* host, const void* device, int64_t bytes) override {
    transfer(host, device, bytes, CL_TRUE, "download");
    if (!bytes) synchronize();
  }
  void upload_later(void* device, const void* host, int64_t bytes) override {
    transfer(device, host, bytes, CL_FALSE, "upload");
  }
  void uploads_enqueued() override {
    if (uploaded_) clReleaseEvent(std::exchange(uploaded_, nullptr));
    check(clEnqueueMarkerWithWaitList(queue_, 0, nullptr, &uploaded_), "mark uploads");
    check(clFlush(queue_), "start uploads");
  }
  void wait_for_uploads() override {
    if (uploaded_) check(clWaitForEvents(1, &uploaded_), "wait for uploads");
  }
  void download_later(void* host, const void* device, int64_t bytes) override {
    transfer(host, device, bytes, CL_FALSE, "download");
  }
  void copy(void* to, const void* from, int64_t bytes) override {
    transfer(to, from, bytes, CL_FALSE, "copy");
  }
  void fill_zero(void* device, int64_t bytes) override {
    const unsigned char zero = 0;
    if (bytes)
      check(clEnqueueSVMMemFill(queue_, device, &zero, 1, static_cast<size_t>(bytes), 0, nullptr,
                                nullptr),
            "fill with zeros");
  }
  void peek(void* host, const void* device, int64_t bytes) override {
    if (bytes)
      check(clEnqueueSVMMemcpy(side_, CL_TRUE, host, device, static_cast<size_t>(bytes), 0, nullptr,
                               nullptr),
            "peek");
  }
  void synchronize() override { check(clFinish(queue_), "a call failed on the device"); }
  std::unique_ptr<Stopwatch> stopwatch() override {
    return opencl::stopwatch(context_, device_, queue_);
  }
  std::optional<int64_t> memory_bytes() override {
    return static_cast<int64_t>(opencl::info<cl_ulong>(device_, CL_DEVICE_GLOBAL_MEM_SIZE));
  }
  // Shared memory is host memory, also for the device: the hash reads it here.
  uint64_t checksum(const void* data, int64_t bytes) override {
    synchronize();
    return checksum_of({static_cast<const std::byte*>(data), static_cast<size_t>(bytes)});
  }

  Shared allocate_shared(int64_t bytes, const std::string& purpose, Sharing others) override {
    return allocate_with_gaps(bytes, /*gaps=*/0, purpose, others);
  }
  Shared allocate_with_gaps(int64_t bytes, int64_t gaps, const std::string& purpose,
                            Sharing others) override {
    need_mappings();
    return shared_.create(bytes, gaps, purpose, others);
  }
  void* open_shared(int fd, int64_t bytes, Sharing mine) override {
    need_mappings();
    return shared_.open(fd, bytes, mine);
  }
  void close_shared(void* data, int64_t) override {
    synchronize();
    shared_.close(data);
  }

 private:
  static constexpr size_t kAlignment = 256;

  cl_command_queue new_queue() {
    const cl_queue_properties properties[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0};
    cl_int status = CL_SUCCESS;
    cl_command_queue queue =
        clCreateCommandQueueWithProperties(context_, device_, properties, &status);
    check(status, "cannot make a queue");
    return queue;
  }
  void transfer(void* to, const void* from, int64_t bytes, cl_bool wait, const char* what) {
    if (bytes)
      check(clEnqueueSVMMemcpy(queue_, wait, to, from, static_cast<size_t>(bytes), 0, nullptr,
                               nullptr),
            what);
  }

  // Error unless a kernel reads and writes mapped memory.
  void need_mappings() {
    if (mappings_tried_) return;
    const auto words = SharedMemory::anonymous(2 * sizeof(uint64_t));
    auto* const word = static_cast<uint64_t*>(words.data());
    word[0] = 0x0123456789abcdef;
    opencl::Kernels(context_, device_).copy_word(queue_, word, word + 1);
    synchronize();
    if (word[1] != word[0])
      fail(name_, "its kernels do not reach memory that processes share",
           "a device which reads mapped memory of the host");
    mappings_tried_ = true;
  }

  int index_ = 0;
  cl_device_id device_ = nullptr;
  std::string name_;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr, side_ = nullptr;
  cl_event uploaded_ = nullptr;
  std::map<void*, void*> own_;  // block of clSVMAlloc() by the address given out
  bool mappings_tried_ = false;
  SharedMappings shared_;
};

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (size_t i = 0; i < all_devices().size(); ++i) out.push_back("opencl:" + std::to_string(i));
  return out;
}
std::unique_ptr<Device> open_opencl(const std::string& name) {
  const auto index = static_cast<size_t>(std::atoi(name.c_str() + name.find(':') + 1));
  const auto devices = all_devices();
  FK_CHECK(index < devices.size(), "the device is in the list of names");
  return std::make_unique<OpenCl>(static_cast<int>(index), devices[index]);
}
std::string missing() { return "the OpenCL loader finds no platform (pocl-opencl-icd is one)"; }

FK_DEVICE_KIND(opencl, {names, open_opencl, missing});

}  // namespace

}  // namespace fk
