// SPDX-License-Identifier: Apache-2.0
// Shared memory by its address in PTX.
#pragma once
#include "target.cuh"

#ifdef __CUDACC__

namespace fkc {

// The dynamic shared memory of the launch.
__device__ inline char* dynamic_shared() {
  extern __shared__ __align__(1024) char memory[];
  return memory;
}
__device__ inline uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
__device__ inline void store_shared(uint32_t to, uint4 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z),
               "r"(v.w)
               : "memory");
}
__device__ inline uint4 load_shared(uint32_t from) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(from)
               : "memory");
  return v;
}

}  // namespace fkc

#endif
