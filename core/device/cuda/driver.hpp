// SPDX-License-Identifier: Apache-2.0
// Functions of the driver, looked up at run time, because a machine without a GPU lacks them.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string>

#include "core/base/error.hpp"

namespace fk::cuda {

template <class F>
F* driver(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const cudaError_t status =
      cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result);
  if (status != cudaSuccess) fail("cuda", std::string(name) + ": " + cudaGetErrorString(status));
  return reinterpret_cast<F*>(found);
}
inline void check_driver(CUresult status, const char* what) {
  if (status != CUDA_SUCCESS)
    fail("cuda", std::string(what) + ": error " + std::to_string(static_cast<int>(status)));
}
// Calls a function of the driver; Error when it fails.
#define FK_DRIVER(name, ...) \
  ::fk::cuda::check_driver(::fk::cuda::driver<decltype(name)>(#name)(__VA_ARGS__), #name)

}  // namespace fk::cuda
