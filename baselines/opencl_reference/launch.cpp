// SPDX-License-Identifier: Apache-2.0
#include "launch.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>

namespace fko {

extern const char* const kKernels;  // the text of kernels.cl

namespace {

void check(cl_int status, const std::string& what) {
  if (status != CL_SUCCESS)
    throw std::runtime_error(what + ": OpenCL status " + std::to_string(status));
}

template <class T>
T property(cl_command_queue queue, cl_command_queue_info key) {
  T value{};
  check(clGetCommandQueueInfo(queue, key, sizeof value, &value, nullptr), "clGetCommandQueueInfo");
  return value;
}

// The program of one context. A kernel keeps its arguments between calls, so each thread has its
// own.
class Program {
 public:
  explicit Program(cl_command_queue queue) {
    const auto device = property<cl_device_id>(queue, CL_QUEUE_DEVICE);
    cl_int status = CL_SUCCESS;
    const char* source = kKernels;
    program_ = clCreateProgramWithSource(property<cl_context>(queue, CL_QUEUE_CONTEXT), 1, &source,
                                         nullptr, &status);
    check(status, "clCreateProgramWithSource");
    if (clBuildProgram(program_, 1, &device, "-cl-std=CL1.2", nullptr, nullptr) != CL_SUCCESS)
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

cl_kernel kernel_of(cl_command_queue queue, const char* name) {
  thread_local std::map<cl_context, Program> programs;
  const auto context = property<cl_context>(queue, CL_QUEUE_CONTEXT);
  return programs.try_emplace(context, queue).first->second.kernel(name);
}

// As in kernels.cl.
struct Ref {
  cl_long stride[6];
  cl_long dtype;
};

}  // namespace

Launch::Launch(const fk_ctx& ctx, const char* kernel)
    : queue_(static_cast<cl_command_queue>(ctx.stream)), kernel_(kernel_of(queue_, kernel)) {}

Launch& Launch::view(const fk_in* view) {
  Ref ref{};
  for (int i = 0; view && i < std::min(view->ndim, 6); ++i) ref.stride[i] = view->strides[i];
  if (view) ref.dtype = FK_DTYPE(view);
  return pointer(view ? view->data : nullptr).bytes(&ref, sizeof ref);
}

Launch& Launch::pointer(const void* memory) {
  check(clSetKernelArgSVMPointer(kernel_, at_++, memory), "clSetKernelArgSVMPointer");
  return *this;
}

Launch& Launch::bytes(const void* value, size_t size) {
  check(clSetKernelArg(kernel_, at_++, size, value), "clSetKernelArg");
  return *this;
}

void Launch::run(int64_t items) {
  if (items <= 0) return;
  value(items);
  const size_t group = 64, all = (static_cast<size_t>(items) + group - 1) / group * group;
  check(clEnqueueNDRangeKernel(queue_, kernel_, 1, nullptr, &all, &group, 0, nullptr, nullptr),
        "clEnqueueNDRangeKernel");
}

}  // namespace fko
