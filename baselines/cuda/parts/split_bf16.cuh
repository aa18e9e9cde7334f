// SPDX-License-Identifier: Apache-2.0
// float32 factors on tensor cores of 16 bits, as BF16x3: the nearest bfloat16, the nearest one to
// the remainder, and the rest. The rest is a bfloat16 too, as 24 bits are three times eight. If the
// other factor is exact (a bfloat16, or a float16 as two of them), a product is as good as float32.
#pragma once
#include "convert.cuh"

namespace fkc {

constexpr int kTerms = 3;

__device__ inline float lower_of(uint32_t two) { return __uint_as_float(two << 16); }
__device__ inline float upper_of(uint32_t two) { return __uint_as_float(two & 0xffff0000u); }
// Writes register `at` of the fragments of the terms of two neighbours, the largest term first.
template <int kCount, int kRegisters>
__device__ void split(float a, float b, uint32_t (&to)[kCount][kRegisters], int at) {
#pragma unroll
  for (int p = 0; p < kCount; ++p) {
    to[p][at] = pack2<__nv_bfloat16>(a, b);
    a -= lower_of(to[p][at]), b -= upper_of(to[p][at]);
  }
}

// f(p, q) for the pairs of terms whose products count. The others are below the precision of
// float32.
template <int kA, int kB, class F>
__device__ void each_product(F f) {
#pragma unroll
  for (int p = 0; p < kA; ++p)
#pragma unroll
    for (int q = 0; q < kB; ++q)
      if (p + q < kTerms) f(p, q);
}

}  // namespace fkc
