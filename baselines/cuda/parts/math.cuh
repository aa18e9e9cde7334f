// SPDX-License-Identifier: Apache-2.0
// Functions of single numbers.
#pragma once
#include "target.cuh"

namespace fkc {

constexpr float kLog2e = 1.4426950408889634F;

#ifdef __CUDACC__
__device__ inline float exp2_approx(float v) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}
// NaN if one of both is NaN.
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
// Two products of bfloat16, each rounded once. Subnormal numbers are not flushed.
__device__ inline uint32_t mul_bf16x2(uint32_t a, uint32_t b) {
  uint32_t v;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
  return v;
}
#endif

__device__ inline float silu(float v) { return v / (1.F + __expf(-v)); }

}  // namespace fkc
