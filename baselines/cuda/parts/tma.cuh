// SPDX-License-Identifier: Apache-2.0
// The tensor memory accelerator (TMA): boxes of tensors by a tensor map (tensor_map.cuh), and bulk
// copies of plain bytes. One thread starts a copy. An mbarrier counts the bytes which arrive.
#pragma once
#include "barrier.cuh"
#include "shared_memory.cuh"

#ifdef __CUDACC__

namespace fkc {

// Into L2.
__device__ inline void prefetch_l2(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}
__device__ inline void prefetch_tensor_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
// An L2 policy for data which is read once.
__device__ inline uint64_t l2_evict_first() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// Boxes. Coordinates begin with the innermost one.
__device__ inline void tma_load_2d(uint32_t to, const CUtensorMap& map, int a, int b,
                                   uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3}], [%4];" ::"r"(to),
      "l"(&map), "r"(a), "r"(b), "r"(barrier)
      : "memory");
}
__device__ inline void tma_load_3d(uint32_t to, const CUtensorMap& map, int a, int b, int c,
                                   uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3, %4}], [%5];" ::"r"(to),
      "l"(&map), "r"(a), "r"(b), "r"(c), "r"(barrier)
      : "memory");
}
__device__ inline void tma_load_4d(uint32_t to, const CUtensorMap& map, int a, int b, int c, int d,
                                   uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3, %4, %5}], [%6];" ::"r"(to),
      "l"(&map), "r"(a), "r"(b), "r"(c), "r"(d), "r"(barrier)
      : "memory");
}
// The same place of each block in `mask` gets the box, and the mbarrier of each counts it.
__device__ inline void tma_load_2d_multicast(uint32_t to, const CUtensorMap& map, int a, int b,
                                             uint32_t barrier, uint16_t mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::"
      "cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(&map), "r"(a), "r"(b), "r"(barrier), "h"(mask)
      : "memory");
}
// Boxes of a map of tensor_map_k64(): rows from `row` on, elements from 64 * k64 on.
__device__ inline void tma_load_k64(uint32_t to, const CUtensorMap& map, int row, int k64,
                                    uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3, %4}], [%5];" ::"r"(to),
      "l"(&map), "r"(0), "r"(row), "r"(k64), "r"(barrier)
      : "memory");
}
__device__ inline void tma_load_k64(uint32_t to, const CUtensorMap& map, int row, int k64,
                                    uint32_t barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
      "l"(&map), "r"(0), "r"(row), "r"(k64), "r"(barrier), "l"(policy)
      : "memory");
}
__device__ inline void tma_load_k64_multicast(uint32_t to, const CUtensorMap& map, int row, int k64,
                                              uint32_t barrier, uint16_t mask) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::"
      "cluster [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
      "l"(&map), "r"(0), "r"(row), "r"(k64), "r"(barrier), "h"(mask)
      : "memory");
}

// Plain bytes; addresses and sizes are multiples of 16.
__device__ inline void bulk_load(uint32_t to, const void* from, int bytes, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
__device__ inline void bulk_store(void* to, uint32_t from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from),
               "r"(bytes)
               : "memory");
}
// Ends a group of stores.
__device__ inline void bulk_store_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Waits until all but kGroups groups have read their source, which may then be overwritten.
template <int kGroups = 0>
__device__ void bulk_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kGroups) : "memory");
}
// Waits until all but kGroups groups have been written.
template <int kGroups = 0>
__device__ void bulk_store_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kGroups) : "memory");
}

// Orders accesses of threads and of the copy engine: in this block's shared memory, or anywhere.
__device__ inline void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void fence_proxy_async() { asm volatile("fence.proxy.async;" ::: "memory"); }

}  // namespace fkc

#endif
