// SPDX-License-Identifier: Apache-2.0
// Elements of tensors to and from float32.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace fkc {

__device__ inline float to_float(float v) { return v; }
__device__ inline float to_float(__nv_bfloat16 v) { return __bfloat162float(v); }
__device__ inline float to_float(__half v) { return __half2float(v); }

template <class T>
__device__ T from_float(float v);
template <>
__device__ inline float from_float(float v) {
  return v;
}
template <>
__device__ inline __nv_bfloat16 from_float(float v) {
  return __float2bfloat16(v);
}
template <>
__device__ inline __half from_float(float v) {
  return __float2half(v);
}

// Two neighbours of 16 bits in a word, as fragments of mma and wgmma have them.
template <class T>
__device__ uint32_t pack2(float a, float b) {
  alignas(4) const T two[2] = {from_float<T>(a), from_float<T>(b)};
  return *reinterpret_cast<const uint32_t*>(two);
}

}  // namespace fkc
