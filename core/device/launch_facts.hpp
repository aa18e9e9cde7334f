// SPDX-License-Identifier: Apache-2.0
// Launches of captured work, from a device's driver.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace fk {

// Parts of kernel names that occur only in NVIDIA's libraries: cuBLASLt 13, cuDNN 9, NCCL 2.19 and
// later. The spelling is that of their files and of cuFuncGetName.
constexpr std::string_view kKernelsOfLibraries[] = {
    "nvjet_",  "xmma_gemm",  "xmma_fprop",       "xmma_dgrad",     "xmma_wgrad",
    "N5cudnn", "N8cublasLt", "cudnn_generated_", "ncclDevKernel_",
};

// The matching part of a library kernel's name; empty: no match.
inline std::string_view kernel_of_library(std::string_view text) {
  for (const auto part : kKernelsOfLibraries)
    if (text.find(part) != text.npos) return part;
  return "";
}

struct LaunchFacts {
  int64_t launches = 0;  // kernels, copies and fills
  // Facts of the kernel with the most threads in total.
  std::string kernel;
  int64_t registers = 0, local_bytes = 0, shared_bytes = 0;  // per thread, per thread, per block
  // The name of the first kernel from a library (kernel_of_library); empty: none.
  std::string of_library;
  double occupancy = 0;  // resident warps of a multiprocessor, as a share of its maximum
};

}  // namespace fk
