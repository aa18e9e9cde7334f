// SPDX-License-Identifier: Apache-2.0
// Hopper's asynchronous copies into shared memory and the barriers that count them; addresses are those of PTX.
#pragma once
#include <cuda.h>

#include "common.cuh"

namespace fkc {

__device__ inline void barrier_init(uint32_t at, int count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(count)); }
__device__ inline void barrier_expect(uint32_t at, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}
__device__ inline void barrier_arrive(uint32_t at) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory"); }
__device__ inline void barrier_arrive_in(uint32_t there) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
}
// Waits for the phase of that parity to end.
__device__ inline void barrier_wait(uint32_t at, uint32_t parity) {
  uint32_t done;
  do {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(at), "r"(parity) : "memory");
  } while (!done);
}
// Four numbers into the shared memory of a block of the cluster, counted by its barrier.
__device__ inline void store_in(uint32_t there, float4 v, uint32_t barrier_there) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(there), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(barrier_there) : "memory");
}
__device__ inline uint64_t read_once() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ inline void copy_bulk(uint32_t to, const void* from, int bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}
// A box of a tensor map: elements from k0 of 64 * boxes columns, 16 rows.
__device__ inline void copy_box(uint32_t to, const CUtensorMap& map, int row, int k64, uint32_t barrier, uint64_t policy) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6;"
               ::"r"(to), "l"(&map), "r"(0), "r"(row), "r"(k64), "r"(barrier), "l"(policy) : "memory");
}
}  // namespace fkc
