// SPDX-License-Identifier: Apache-2.0
// What captured work launches, as a device's driver tells it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace fk {

// Parts of the names that kernels have in NVIDIA's libraries of ready ones (cuBLASLt 13, cuDNN 9,
// NCCL 2.19 and later), as their files and cuFuncGetName have them, and in nobody's sources.
constexpr std::string_view kKernelsOfLibraries[] = {
    "nvjet_",  "xmma_gemm",  "xmma_fprop",       "xmma_dgrad",     "xmma_wgrad",
    "N5cudnn", "N8cublasLt", "cudnn_generated_", "ncclDevKernel_",
};

// Empty, or the part that tells it.
inline std::string_view kernel_of_library(std::string_view text) {
  for (const auto part : kKernelsOfLibraries)
    if (text.find(part) != text.npos) return part;
  return "";
}

struct LaunchFacts {
  int64_t launches = 0;  // kernels, copies and fills
  // Of the kernel with the most threads in all.
  std::string kernel;
  int64_t registers = 0, local_bytes = 0, shared_bytes = 0;  // per thread, per thread, per block
  // The first kernel that is one of a library's (kernel_of_library), by its name; empty: none is.
  std::string of_library;
  double occupancy = 0;  // warps that fit into a multiprocessor at once, of those that could
};

}  // namespace fk
