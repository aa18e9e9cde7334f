// SPDX-License-Identifier: Apache-2.0
// The host's side of a launch: attributes, clusters, and the size of the device.
#pragma once
#include <algorithm>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "fk/cpp/plugin.hpp"
#include "target.cuh"

namespace fkc {

inline int64_t cdiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline cudaStream_t stream(const fk_ctx& ctx) { return static_cast<cudaStream_t>(ctx.stream); }
inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}
inline int sm_count() {
  int device = 0, count = 0;
  check(cudaGetDevice(&device), "device");
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "multiprocessors");
  return count;
}

// A kernel which asks for another division of L1 cannot start beside running kernels. So kernels
// ask for the same one, the largest shared memory. Grids of this many blocks have time to wait, and
// need L1 for loads in flight.
constexpr int64_t kBlocksOfMany = 4096;

// Launches for a dependent start (dependent_launch.cuh).
template <class... P, class... A>
void launch_clusters(void (*kernel)(P...), dim3 cluster, dim3 grid, dim3 block, size_t shared,
                     const fk_ctx& ctx, A... arguments) {
  cudaLaunchAttribute attributes[3]{};
  unsigned count = 0;
  attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  if (int64_t(grid.x) * grid.y * grid.z < kBlocksOfMany) {
    attributes[count].id = cudaLaunchAttributePreferredSharedMemoryCarveout;
    attributes[count++].val.sharedMemCarveout = cudaSharedmemCarveoutMaxShared;
  }
  if (cluster.x * cluster.y * cluster.z > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {cluster.x, cluster.y, cluster.z};
  }
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  config.stream = stream(ctx);
  config.attrs = attributes;
  config.numAttrs = count;
  check(cudaLaunchKernelEx(&config, kernel, static_cast<P>(arguments)...), "launch");
}
template <class... P, class... A>
void launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared, const fk_ctx& ctx,
            A... arguments) {
  launch_clusters(kernel, dim3(1), grid, block, shared, ctx, arguments...);
}

// The number of clusters of `size` blocks which run at once; at least 1. The device is asked once
// for each kernel and size. `shared`: bytes of dynamic shared memory, which the kernel may have
// from then on.
template <class... P>
int max_active_clusters(void (*kernel)(P...), int size, int threads, int shared) {
  static std::mutex mutex;
  static std::map<std::pair<void*, int>, int> known;
  const std::lock_guard<std::mutex> lock(mutex);
  int& count = known[{reinterpret_cast<void*>(kernel), size}];
  if (count) return count;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared),
        "shared memory");
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

// One thread for each of `items`; at least one block.
constexpr int kItemThreads = 256;
inline unsigned blocks_of(int64_t items) {
  return unsigned(std::max<int64_t>(1, cdiv(items, kItemThreads)));
}
__device__ inline int64_t item_of_thread() {
  return int64_t(blockIdx.x) * kItemThreads + threadIdx.x;
}

}  // namespace fkc
