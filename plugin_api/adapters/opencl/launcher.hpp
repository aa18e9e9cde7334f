// SPDX-License-Identifier: Apache-2.0
// Launches of kernels in OpenCL C from a plugin. The generated C++ of a source `.cl` uses it, and
// so may any plugin for OpenCL devices.
#pragma once
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "fk/memory.h"
#include "fk/opencl.h"
#include "fk/tensor.h"

namespace fk_opencl {

inline void check(cl_int status, const std::string& what) {
  if (status != CL_SUCCESS)
    throw std::runtime_error(what + ": OpenCL status " + std::to_string(status));
}

template <class T>
T of_queue(cl_command_queue queue, cl_command_queue_info key) {
  T value{};
  check(clGetCommandQueueInfo(queue, key, sizeof value, &value, nullptr), "clGetCommandQueueInfo");
  return value;
}

// A source, compiled for the device of a queue.
class Program {
 public:
  Program(cl_command_queue queue, const char* source, const std::string& options) {
    const auto device = of_queue<cl_device_id>(queue, CL_QUEUE_DEVICE);
    cl_int status = CL_SUCCESS;
    program_ = clCreateProgramWithSource(of_queue<cl_context>(queue, CL_QUEUE_CONTEXT), 1, &source,
                                         nullptr, &status);
    check(status, "clCreateProgramWithSource");
    if (clBuildProgram(program_, 1, &device, options.c_str(), nullptr, nullptr) != CL_SUCCESS)
      throw std::runtime_error("the kernels do not compile: " + log_of(device));
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    for (auto& [name, kernel] : kernels_) clReleaseKernel(kernel);
    if (program_) clReleaseProgram(program_);
  }
  cl_kernel kernel(const std::string& name) {
    if (const auto known = kernels_.find(name); known != kernels_.end()) return known->second;
    cl_int status = CL_SUCCESS;
    cl_kernel made = clCreateKernel(program_, name.c_str(), &status);
    check(status, "clCreateKernel " + name);
    return kernels_[name] = made;
  }

 private:
  std::string log_of(cl_device_id device) const {
    std::string text(4000, '\0');
    size_t size = 0;
    if (clGetProgramBuildInfo(program_, device, CL_PROGRAM_BUILD_LOG, text.size(), text.data(),
                              &size) != CL_SUCCESS)
      return "no log";
    text.resize(std::min(size, text.size()));
    return text;
  }
  cl_program program_ = nullptr;
  std::map<std::string, cl_kernel> kernels_;
};

// The compiled source. A kernel keeps its arguments between calls, so each thread has programs of
// its own. `source` must be a constant of the plugin: its address is part of the key.
inline Program& program_of(cl_command_queue queue, const char* source, const std::string& options) {
  thread_local std::map<std::pair<std::pair<cl_context, const char*>, std::string>, Program>
      programs;
  const auto context = of_queue<cl_context>(queue, CL_QUEUE_CONTEXT);
  const auto key = std::make_pair(std::make_pair(context, source), options);
  auto known = programs.find(key);
  if (known == programs.end())
    known = programs
                .emplace(std::piecewise_construct, std::forward_as_tuple(key),
                         std::forward_as_tuple(queue, source, options))
                .first;
  return known->second;
}

// For prepare(): compiles the kernels of the calling thread, so that its first forward() need not.
inline void compile(const fk_memory& memory, const char* source, const std::string& options) {
  (void)program_of(static_cast<cl_command_queue>(memory.stream), source, options);
}

// One launch: arguments in the order of the kernel, then run(). Error (std::runtime_error) with the
// call and its status.
class Launch {
 public:
  Launch(const fk_ctx& ctx, const char* source, const std::string& options, const char* kernel)
      : queue_(static_cast<cl_command_queue>(ctx.stream)),
        kernel_(program_of(queue_, source, options).kernel(kernel)) {}
  Launch& pointer(const void* memory) {
    check(clSetKernelArgSVMPointer(kernel_, at_++, memory), "clSetKernelArgSVMPointer");
    return *this;
  }
  Launch& bytes(const void* value, size_t size) {
    check(clSetKernelArg(kernel_, at_++, size, value), "clSetKernelArg");
    return *this;
  }
  // A `long` or `double` of the kernel.
  template <class T>
  Launch& value(T v) {
    const std::conditional_t<std::is_integral_v<T>, cl_long, cl_double> number = v;
    return bytes(&number, sizeof number);
  }
  Launch& number(float v) { return bytes(&v, sizeof v); }
  // Enqueues whole groups with `items` work items or more.
  void run(int64_t items, size_t group = 64) {
    if (items <= 0) return;
    const size_t all = (static_cast<size_t>(items) + group - 1) / group * group;
    check(clEnqueueNDRangeKernel(queue_, kernel_, 1, nullptr, &all, &group, 0, nullptr, nullptr),
          "clEnqueueNDRangeKernel");
  }

 private:
  cl_command_queue queue_;
  cl_kernel kernel_;
  cl_uint at_ = 0;  // the next argument
};

}  // namespace fk_opencl
