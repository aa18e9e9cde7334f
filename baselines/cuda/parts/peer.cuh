// SPDX-License-Identifier: Apache-2.0
// Words in memory which other devices write or read at the same time, and tools for waiting
// threads.
#pragma once
#include "target.cuh"

#ifdef __CUDACC__

namespace fkc {

__device__ inline void store_release(uint32_t* at, uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
__device__ inline uint32_t load_acquire(const uint32_t* at) {
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}

__device__ inline uint4 load_relaxed(const uint4* at) {
  uint4 v;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(at)
               : "memory");
  return v;
}
__device__ inline uint2 load_relaxed(const uint2* at) {
  uint2 v;
  asm volatile("ld.relaxed.sys.global.v2.u32 {%0,%1}, [%2];"
               : "=r"(v.x), "=r"(v.y)
               : "l"(at)
               : "memory");
  return v;
}
__device__ inline uint32_t load_relaxed(const uint32_t* at) {
  uint32_t v;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
  return v;
}
__device__ inline unsigned short load_relaxed(const unsigned short* at) {
  unsigned short v;
  asm volatile("ld.relaxed.sys.global.u16 %0, [%1];" : "=h"(v) : "l"(at) : "memory");
  return v;
}
__device__ inline unsigned char load_relaxed(const unsigned char* at) {
  uint32_t v;
  asm volatile("ld.relaxed.sys.global.u8 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
  return static_cast<unsigned char>(v);
}

__device__ inline void store_relaxed(uint4* at, uint4 v) {
  asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(at), "r"(v.x), "r"(v.y),
               "r"(v.z), "r"(v.w)
               : "memory");
}
__device__ inline void store_relaxed(uint2* at, uint2 v) {
  asm volatile("st.relaxed.sys.global.v2.u32 [%0], {%1,%2};" ::"l"(at), "r"(v.x), "r"(v.y)
               : "memory");
}
__device__ inline void store_relaxed(uint32_t* at, uint32_t v) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(at), "r"(v) : "memory");
}
__device__ inline void store_relaxed(unsigned short* at, unsigned short v) {
  asm volatile("st.relaxed.sys.global.u16 [%0], %1;" ::"l"(at), "h"(v) : "memory");
}
__device__ inline void store_relaxed(unsigned char* at, unsigned char v) {
  asm volatile("st.relaxed.sys.global.u8 [%0], %1;" ::"l"(at), "r"(uint32_t(v)) : "memory");
}

// The multiprocessor of this block.
__device__ inline unsigned sm_id() {
  unsigned id;
  asm volatile("mov.u32 %0, %smid;" : "=r"(id));
  return id;
}
__device__ inline unsigned long long global_timer_ns() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}
// Between two reads of a word by a waiting thread. On a GPU other threads run anyway.
__device__ inline void let_others_run() {}

}  // namespace fkc

#endif
