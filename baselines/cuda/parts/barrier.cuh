// SPDX-License-Identifier: Apache-2.0
// Barriers: named barriers of a block, and mbarriers in shared memory, which count arrivals and
// bytes.
#pragma once
#include "target.cuh"

#ifdef __CUDACC__

namespace fkc {

// Named barriers of `threads` threads.
__device__ inline void named_barrier_sync(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ inline void named_barrier_arrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Makes initialised mbarriers visible to the cluster and to the copy engine.
__device__ inline void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void mbarrier_init(uint32_t at, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(count));
}
// Arrives, and adds bytes which have to come before the phase ends.
__device__ inline void mbarrier_arrive_expect_tx(uint32_t at, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes)
               : "memory");
}
__device__ inline void mbarrier_arrive(uint32_t at) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}
// At an mbarrier of another block of the cluster (map_shared_rank()).
__device__ inline void mbarrier_arrive_remote(uint32_t there) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(there)
               : "memory");
}
// The same by a reader which used wgmma alone. It releases nothing to the cluster, so it saves a
// fence.
__device__ inline void mbarrier_arrive_remote_unordered(uint32_t there) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
}
// Waits until the phase of this parity ends.
__device__ inline void mbarrier_wait(uint32_t at, uint32_t parity) {
  uint32_t done;
  do {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, "
        "p; }"
        : "=r"(done)
        : "r"(at), "r"(parity)
        : "memory");
  } while (!done);
}

}  // namespace fkc

#endif
