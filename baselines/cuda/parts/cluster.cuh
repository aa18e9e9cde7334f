// SPDX-License-Identifier: Apache-2.0
// Blocks of a cluster: their barrier, and distributed shared memory.
#pragma once
#include "shared_memory.cuh"

#ifdef __CUDACC__

namespace fkc {

// The address of the same place in the shared memory of block `rank`.
__device__ inline uint32_t map_shared_rank(uint32_t at, int rank) {
  uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
  return there;
}
__device__ inline float dsmem_load(uint32_t there) {
  float v;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(there) : "memory");
  return v;
}
__device__ inline unsigned long long dsmem_load_u64(uint32_t there) {
  unsigned long long v;
  asm volatile("ld.shared::cluster.u64 %0, [%1];" : "=l"(v) : "r"(there) : "memory");
  return v;
}
// Writes four floats. The mbarrier of the other block counts their 16 bytes.
__device__ inline void dsmem_store_async(uint32_t there, float4 v, uint32_t barrier_there) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, "
      "[%5];" ::"r"(there),
      "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(barrier_there)
      : "memory");
}
// A barrier of all threads of the cluster. Blocks must not end while others access their memory.
__device__ inline void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}

}  // namespace fkc

#endif
