// SPDX-License-Identifier: Apache-2.0
#include "backends/opencl/kernels.hpp"

namespace fk_opencl {

namespace {
constexpr const char* kSource = R"(
__kernel void fk_read(__global const ulong* memory, ulong lines, __global ulong* sums) {
  ulong sum = 0;
  for (ulong i = get_global_id(0); i < lines; i += get_global_size(0)) sum += memory[8 * i];
  sums[get_global_id(0)] = sum;
}
__kernel void fk_copy_word(__global const ulong* from, __global ulong* to) { *to = *from; }
)";
constexpr int64_t kLine = 64;  // bytes
}  // namespace

Kernels::~Kernels() {
  for (cl_kernel kept : {read_, copy_word_})
    if (kept) clReleaseKernel(kept);
  if (program_) clReleaseProgram(program_);
}

cl_kernel Kernels::kernel(const char* name, cl_kernel& kept) {
  if (kept) return kept;
  cl_int status = CL_SUCCESS;
  if (!program_) {
    const char* source = kSource;
    program_ = clCreateProgramWithSource(context_, 1, &source, nullptr, &status);
    check(status, "cannot make a program");
    check(clBuildProgram(program_, 1, &device_, "", nullptr, nullptr), "cannot build a program");
  }
  kept = clCreateKernel(program_, name, &status);
  check(status, "cannot make a kernel");
  return kept;
}

void Kernels::read(cl_command_queue queue, const void* memory, int64_t bytes, void* sums) {
  cl_kernel it = kernel("fk_read", read_);
  const auto lines = static_cast<cl_ulong>(bytes / kLine);
  check(clSetKernelArgSVMPointer(it, 0, memory), "set an argument");
  check(clSetKernelArg(it, 1, sizeof lines, &lines), "set an argument");
  check(clSetKernelArgSVMPointer(it, 2, sums), "set an argument");
  const size_t items = kItems;
  check(clEnqueueNDRangeKernel(queue, it, 1, nullptr, &items, nullptr, 0, nullptr, nullptr),
        "read memory");
}

void Kernels::copy_word(cl_command_queue queue, const void* from, void* to) {
  cl_kernel it = kernel("fk_copy_word", copy_word_);
  check(clSetKernelArgSVMPointer(it, 0, from), "set an argument");
  check(clSetKernelArgSVMPointer(it, 1, to), "set an argument");
  const size_t one = 1;
  check(clEnqueueNDRangeKernel(queue, it, 1, nullptr, &one, nullptr, 0, nullptr, nullptr),
        "copy a word");
}

}  // namespace fk_opencl
