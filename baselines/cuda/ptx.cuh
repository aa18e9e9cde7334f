// SPDX-License-Identifier: Apache-2.0
// Instructions that C++ has no words for, for sm_90; addresses of shared memory are those of PTX. wgmma.cuh has the rest. A C++
// compiler finds their emulation instead (test/cuda_emulation), which runs the same kernels on the CPU.
#pragma once
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "fk/abi.h"

namespace fkc {

__device__ inline float to_float(__nv_bfloat16 v) { return __bfloat162float(v); }
__device__ inline float to_float(__half v) { return __half2float(v); }
template <class T> __device__ T from_float(float v);
template <> __device__ inline __nv_bfloat16 from_float(float v) { return __float2bfloat16(v); }
template <> __device__ inline __half from_float(float v) { return __float2half(v); }

}  // namespace fkc

#ifndef __CUDACC__
#include "emulated_ptx.hpp"
#else

namespace fkc {

inline constexpr int32_t kDevice = FK_CUDA, kSm[] = {90}, kSmCount = 1;  // what it runs on
inline constexpr int kManyThreads = 1024;  // of a block that has much to do

// Programmatic dependent launch: the kernel after this one may start; what the kernels before it have written is there.
__device__ inline void let_next_start() { asm volatile("griddepcontrol.launch_dependents;"); }
__device__ inline void wait_for_previous() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
// A word that a kernel before the one before this one has written, without a wait: the one before waited before it let this one start,
// so what was written then is done. The emulation refuses it where the one before let this one start sooner. Past the first cache, which
// may know what was there earlier.
__device__ inline int32_t read_early(const int32_t* at) { return __ldcg(at); }
// Registers of the threads of this warpgroup.
template <int kCount> __device__ void fewer_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount)); }
template <int kCount> __device__ void more_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount)); }

// Shared memory: what the launch asked for, an address for PTX, the same place in another block of the cluster and what is there,
// and a barrier of all threads of the cluster.
__device__ inline char* dynamic_shared() {
  extern __shared__ __align__(1024) char memory[];
  return memory;
}
__device__ inline uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
__device__ inline uint32_t in_block(uint32_t at, int rank) {
  uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
  return there;
}
__device__ inline float read_in_block(uint32_t there) {
  float v;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(there) : "memory");
  return v;
}
__device__ inline unsigned long long read_in_block_u64(uint32_t there) {
  unsigned long long v;
  asm volatile("ld.shared::cluster.u64 %0, [%1];" : "=l"(v) : "r"(there) : "memory");
  return v;
}
__device__ inline void cluster_sync() { asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// Four 8 x 8 matrices of 16-bit elements, as they are or transposed, and one in registers: its row lane / 4 has two elements here.
__device__ inline void load_matrices(uint32_t (&r)[4], uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from));
}
__device__ inline void load_transposed(uint32_t (&r)[4], uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from));
}
__device__ inline uint32_t transposed(uint32_t v) {
  uint32_t r;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(v));
  return r;
}
// c += a * b on tensor cores: mma.m16n8k16, with the fragments of PTX.
template <class T> __device__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
template <> __device__ inline void multiply<__nv_bfloat16>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <> __device__ inline void multiply<__half>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// Two bfloat16 times two, each rounded once; subnormal numbers count.
__device__ inline uint32_t multiply_bf16x2(uint32_t a, uint32_t b) {
  uint32_t v;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
  return v;
}
__device__ inline float exp2_of(float v) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}

// 16 bytes into shared memory, zeros where there is nothing; eight bytes; groups of such copies, and until at most so many are under way.
__device__ inline void copy_async(uint32_t to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0));
}
__device__ inline void copy_async_8(uint32_t to, const void* from) { asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(from)); }
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;"); }
template <int kGroups> __device__ void await_copies() { asm volatile("cp.async.wait_group %0;" ::"n"(kGroups)); }

// Arrives at a barrier in shared memory, which has counted on it, when all copies of this thread are there.
__device__ inline void copies_arrive(uint32_t barrier) { asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory"); }

// Barriers of a block by number, for a number of its threads.
__device__ inline void named_sync(int barrier, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory"); }
__device__ inline void named_arrive(int barrier, int threads) { asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory"); }

// Barriers in shared memory, which count arrivals and bytes. What was initialised is seen by the cluster and by the copy engine.
__device__ inline void fence_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void barrier_init(uint32_t at, int count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(count)); }
__device__ inline void barrier_expect(uint32_t at, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}
__device__ inline void barrier_arrive(uint32_t at) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory"); }
__device__ inline void barrier_arrive_in(uint32_t there) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
}
// Of one who has read through wgmma alone: nothing has to be released across the cluster, which would cost a fence.
__device__ inline void barrier_arrive_unordered(uint32_t there) { asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory"); }
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
// Into the second cache.
__device__ inline void prefetch(const void* from) { asm volatile("prefetch.global.L2 [%0];" ::"l"(from)); }
__device__ inline void prefetch_map(const CUtensorMap& map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }
__device__ inline uint64_t read_once() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ inline void copy_bulk(uint32_t to, const void* from, int bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}
// A box of the tensor that a map describes, counted by a barrier; coordinates from the innermost on. Of three dimensions: elements
// from 64 * k64, from a row (tensor_map.cuh, map_of_64s); also to all blocks of `mask` at the same place, each of whose barriers counts.
__device__ inline void copy_box_2d(uint32_t to, const CUtensorMap& map, int k, int row, uint32_t barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               ::"r"(to), "l"(&map), "r"(k), "r"(row), "r"(barrier) : "memory");
}
__device__ inline void copy_box_2d_to(uint32_t to, const CUtensorMap& map, int k, int row, uint32_t barrier, uint16_t mask) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
               ::"r"(to), "l"(&map), "r"(k), "r"(row), "r"(barrier), "h"(mask) : "memory");
}
__device__ inline void copy_box_3d(uint32_t to, const CUtensorMap& map, int a, int b, int c, uint32_t barrier) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
               ::"r"(to), "l"(&map), "r"(a), "r"(b), "r"(c), "r"(barrier) : "memory");
}
__device__ inline void copy_box_4d(uint32_t to, const CUtensorMap& map, int a, int b, int c, int d, uint32_t barrier) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];"
               ::"r"(to), "l"(&map), "r"(a), "r"(b), "r"(c), "r"(d), "r"(barrier) : "memory");
}
__device__ inline void copy_box(uint32_t to, const CUtensorMap& map, int row, int k64, uint32_t barrier) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
               ::"r"(to), "l"(&map), "r"(0), "r"(row), "r"(k64), "r"(barrier) : "memory");
}
__device__ inline void copy_box_to(uint32_t to, const CUtensorMap& map, int row, int k64, uint32_t barrier, uint16_t mask) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;"
               ::"r"(to), "l"(&map), "r"(0), "r"(row), "r"(k64), "r"(barrier), "h"(mask) : "memory");
}
__device__ inline void copy_box(uint32_t to, const CUtensorMap& map, int row, int k64, uint32_t barrier, uint64_t policy) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6;"
               ::"r"(to), "l"(&map), "r"(0), "r"(row), "r"(k64), "r"(barrier), "l"(policy) : "memory");
}

// Out of shared memory by the copy engine: groups of such copies, until what they read may be overwritten, and until all but so
// many of them are there.
__device__ inline void store_shared(uint32_t to, uint4 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
__device__ inline uint4 load_shared(uint32_t from) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(from) : "memory");
  return v;
}
__device__ inline void store_bulk(void* to, uint32_t from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes) : "memory");
}
__device__ inline void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int kGroups = 0> __device__ void await_stores_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kGroups) : "memory"); }
template <int kGroups = 0> __device__ void await_stores() { asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kGroups) : "memory"); }
// Between what threads write or read and what the copy engine does: in this block's shared memory, anywhere.
__device__ inline void fence_async_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ inline void fence_async() { asm volatile("fence.proxy.async;" ::: "memory"); }

// Words that other devices write or read.
__device__ inline void store_release(uint32_t* at, uint32_t value) { asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory"); }
__device__ inline uint32_t load_acquire(const uint32_t* at) {
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
__device__ inline uint4 load_relaxed(const uint4* at) {
  uint4 v;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at) : "memory");
  return v;
}
__device__ inline uint2 load_relaxed(const uint2* at) {
  uint2 v;
  asm volatile("ld.relaxed.sys.global.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(at) : "memory");
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
__device__ inline void store_relaxed(uint2* at, uint2 v) { asm volatile("st.relaxed.sys.global.v2.u32 [%0], {%1,%2};" ::"l"(at), "r"(v.x), "r"(v.y) : "memory"); }
__device__ inline void store_relaxed(uint32_t* at, uint32_t v) { asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(at), "r"(v) : "memory"); }
__device__ inline void store_relaxed(unsigned short* at, unsigned short v) { asm volatile("st.relaxed.sys.global.u16 [%0], %1;" ::"l"(at), "h"(v) : "memory"); }
__device__ inline void store_relaxed(unsigned char* at, unsigned char v) { asm volatile("st.relaxed.sys.global.u8 [%0], %1;" ::"l"(at), "r"(uint32_t(v)) : "memory"); }
__device__ inline void store_relaxed(uint4* at, uint4 v) {
  asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
// NaN where one of them is.
__device__ inline float max_or_nan(float a, float b) {
  float v;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(v) : "f"(a), "f"(b));
  return v;
}
__device__ inline float min_or_nan(float a, float b) {
  float v;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(v) : "f"(a), "f"(b));
  return v;
}
// Which one this block runs on.
__device__ inline unsigned processor() {
  unsigned id;
  asm volatile("mov.u32 %0, %smid;" : "=r"(id));
  return id;
}
// Between two looks at such a word: here they run anyway.
__device__ inline void let_others_run() {}
__device__ inline unsigned long long time_ns() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

}  // namespace fkc

#endif
