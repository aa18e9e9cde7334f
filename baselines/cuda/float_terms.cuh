// SPDX-License-Identifier: Apache-2.0
// float32 factors for tensor cores that take 16 bits: the nearest bfloat16, the nearest to what that leaves, and the rest, which is one:
// 24 bits in eights. Where the other factor is exact, a bfloat16 or a float16 as two, a product is as good as float32.
#pragma once
#include "common.cuh"

namespace fkc {

constexpr int kTerms = 3;

__device__ inline float lower_of(uint32_t two) { return __uint_as_float(two << 16); }
__device__ inline float upper_of(uint32_t two) { return __uint_as_float(two & 0xffff0000u); }
// Register `at` of the fragments of two neighbours' terms, the largest first.
template <int kCount, int kRegisters> __device__ void split(float a, float b, uint32_t (&to)[kCount][kRegisters], int at) {
#pragma unroll
  for (int p = 0; p < kCount; ++p) {
    to[p][at] = pair<__nv_bfloat16>(a, b);
    a -= lower_of(to[p][at]), b -= upper_of(to[p][at]);
  }
}

// f(p, q) for the parts of two factors whose products count: what is left out is beyond float32.
template <int kA, int kB, class F> __device__ void each_product(F f) {
#pragma unroll
  for (int p = 0; p < kA; ++p)
#pragma unroll
    for (int q = 0; q < kB; ++q)
      if (p + q < kTerms) f(p, q);
}

}  // namespace fkc
