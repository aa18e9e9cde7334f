// SPDX-License-Identifier: Apache-2.0
// cp.async: copies by threads from global to shared memory, in groups.
#pragma once
#include "shared_memory.cuh"

#ifdef __CUDACC__

namespace fkc {

// 16 bytes; zeros if the source is not `there`.
__device__ inline void cp_async_16(uint32_t to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(there ? 16 : 0));
}
__device__ inline void cp_async_8(uint32_t to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(from));
}
// Ends a group.
__device__ inline void cp_async_commit() { asm volatile("cp.async.commit_group;"); }
// Waits until at most kGroups groups of this thread are in flight.
template <int kGroups>
__device__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups));
}
// Arrives at an mbarrier when all copies of this thread have ended. The mbarrier's count includes
// it.
__device__ inline void cp_async_mbarrier_arrive(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

}  // namespace fkc

#endif
