// SPDX-License-Identifier: Apache-2.0
// Reductions over lanes of a warp and over a block. Every lane gets the result.
#pragma once
#include "target.cuh"

namespace fkc {

constexpr unsigned kAllLanes = 0xffffffffu;

// Over groups of kLanes neighbouring lanes, a power of two, by a butterfly from its widest step on.
template <int kLanes = 32, class T>
__device__ T warp_sum(T v) {
  for (int k = kLanes / 2; k > 0; k /= 2) v += __shfl_xor_sync(kAllLanes, v, k);
  return v;
}
template <int kLanes = 32>
__device__ float warp_max(float v) {
  for (int k = kLanes / 2; k > 0; k /= 2) v = fmaxf(v, __shfl_xor_sync(kAllLanes, v, k));
  return v;
}
__device__ inline unsigned long long warp_max(unsigned long long v) {
  for (int k = 16; k > 0; k /= 2) {
    const unsigned long long other = __shfl_xor_sync(kAllLanes, v, k);
    v = other > v ? other : v;
  }
  return v;
}

// Over a quad: the four lanes which have a row of a fragment of mma or wgmma.
__device__ inline float quad_sum(float v) {
  v += __shfl_xor_sync(kAllLanes, v, 1);
  return v + __shfl_xor_sync(kAllLanes, v, 2);
}
__device__ inline float quad_max(float v) {
  v = fmaxf(v, __shfl_xor_sync(kAllLanes, v, 1));
  return fmaxf(v, __shfl_xor_sync(kAllLanes, v, 2));
}
// Over the eight lanes which have a column of a fragment.
__device__ inline float column_sum(float v) {
#pragma unroll
  for (int k = 4; k < 32; k *= 2) v += __shfl_xor_sync(kAllLanes, v, k);
  return v;
}
__device__ inline float column_max(float v) {
#pragma unroll
  for (int k = 4; k < 32; k *= 2) v = fmaxf(v, __shfl_xor_sync(kAllLanes, v, k));
  return v;
}

// Over a block of whole warps. A second call needs __syncthreads() before it.
__device__ inline float block_sum(float v) {
  __shared__ float warp[32];
  v = warp_sum(v);
  if (threadIdx.x % 32 == 0) warp[threadIdx.x / 32] = v;
  __syncthreads();
  return warp_sum(threadIdx.x % 32 < blockDim.x / 32 ? warp[threadIdx.x % 32] : 0.F);
}
__device__ inline float block_max(float v) {
  __shared__ float warp[32];
  v = warp_max(v);
  if (threadIdx.x % 32 == 0) warp[threadIdx.x / 32] = v;
  __syncthreads();
  return warp_max(threadIdx.x % 32 < blockDim.x / 32 ? warp[threadIdx.x % 32] : -INFINITY);
}

}  // namespace fkc
