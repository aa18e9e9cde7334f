// SPDX-License-Identifier: Apache-2.0
// silu_and_mul in bfloat16 as a copy does it: eight elements at a time, every byte once.
#pragma once
#include <cuda_bf16.h>

#include <cstdint>

namespace known {

constexpr int kThreads = 256;

// Rows of `width` gates and `width` ups, a multiple of 8; one block or several along x per row.
__global__ void silu(const uint4* __restrict__ x, uint4* __restrict__ out, int width) {
  const int parts = width / 8;
  const int64_t row = blockIdx.y;
  const uint4* const gates = x + row * 2 * parts;
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < parts; i += gridDim.x * kThreads) {
    const uint4 g = gates[i], u = gates[parts + i];
    uint4 to;
    const auto *a = reinterpret_cast<const __nv_bfloat162*>(&g), *b = reinterpret_cast<const __nv_bfloat162*>(&u);
    auto* const c = reinterpret_cast<__nv_bfloat162*>(&to);
    for (int k = 0; k < 4; ++k) {
      const float2 gate = __bfloat1622float2(a[k]), up = __bfloat1622float2(b[k]);
      c[k] = __floats2bfloat162_rn(gate.x / (1 + __expf(-gate.x)) * up.x, gate.y / (1 + __expf(-gate.y)) * up.y);
    }
    out[row * parts + i] = to;
  }
}
__global__ void nothing() {}

inline dim3 grid(int64_t rows, int64_t width) {
  return dim3(static_cast<unsigned>((width / 8 + kThreads - 1) / kThreads), static_cast<unsigned>(rows));
}

}  // namespace known
