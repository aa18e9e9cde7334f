// SPDX-License-Identifier: Apache-2.0
// How many clusters of blocks run at once.
#pragma once
#include <map>
#include <mutex>
#include <utility>

#include "tensor_map.cuh"

namespace fkc {

// Clusters of `size` blocks with so much dynamic shared memory that the device holds at once; asked once per kernel and size.
template <class... P> int clusters(void (*kernel)(P...), int size, int threads, int shared) {
  static std::mutex mutex;
  static std::map<std::pair<void*, int>, int> known;
  const std::lock_guard<std::mutex> lock(mutex);
  int& count = known[{reinterpret_cast<void*>(kernel), size}];
  if (count) return count;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared), "shared memory");
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {unsigned(size), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = unsigned(size) * 256;
  config.blockDim = unsigned(threads);
  config.dynamicSmemBytes = size_t(shared);
  config.attrs = &attribute;
  config.numAttrs = 1;
  check(cudaOccupancyMaxActiveClusters(&count, kernel, &config), "occupancy");
  return count = std::max(count, 1);
}

}  // namespace fkc
