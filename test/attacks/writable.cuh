// SPDX-License-Identifier: Apache-2.0
// Asks the driver for what a plugin was not given.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace attack {

template <class F, class... Arguments>
void driver(const char* name, Arguments... arguments) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  if (cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result) != cudaSuccess || reinterpret_cast<F*>(found)(arguments...) != CUDA_SUCCESS)
    throw std::runtime_error(std::string(name) + " failed");
}

// Write access to all of the allocation that `data` lies in. False of what cudaMalloc gave, which has it and none that can be asked for.
inline bool make_writable(const void* data) {
  CUdeviceptr base = 0;
  size_t bytes = 0;
  driver<decltype(cuMemGetAddressRange_v2)>("cuMemGetAddressRange", &base, &bytes, CUdeviceptr(data));
  const CUmemAccessDesc who{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  try {
    driver<decltype(cuMemSetAccess)>("cuMemSetAccess", base, bytes, &who, size_t(1));
  } catch (const std::runtime_error&) {
    return false;
  }
  return true;
}

}  // namespace attack
