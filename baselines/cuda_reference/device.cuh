// SPDX-License-Identifier: Apache-2.0
// The differences between a GPU and test/cuda_emulation: the provider's claims, dynamic shared
// memory, sizes of blocks, and one instruction. The emulation compiles the same sources as C++ for
// the CPU.
#pragma once
#include <cuda_runtime.h>

#include "fk/cpp/plugin.hpp"

namespace fkr {

#ifdef __CUDACC__
inline constexpr int32_t kSm[] = {90};
inline constexpr fk_claims kClaims{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_ALWAYS, 1, 1, FK_ACCUMULATE_F64, 0, 1, kSm};
inline constexpr int kThreads = 256;       // threads of a block, by default
inline constexpr int kManyThreads = 1024;  // threads of a block with much work
inline constexpr int64_t kMaxBlocks = int64_t{1} << 20;  // blocks of a grid; beyond it, blocks take several turns

__device__ inline double* dynamic_shared() {
  extern __shared__ double fkr_shared[];
  return fkr_shared;
}

// c[16][8] += a[16][4] b[4][8] by a warp. Lane l holds a at rows l/4 and l/4+8 of column l%4, and b
// at row l%4 of column l/4. It holds c at these two rows and columns 2(l%4) and 2(l%4)+1.
__device__ inline void multiply(double (&c)[4], double a0, double a1, double b) {
  asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
      : "d"(a0), "d"(a1), "d"(b));
}
#else
inline constexpr fk_claims kClaims{FK_END(fk_claims, sm), FK_CPU, FK_GRAPH_ALWAYS, 1, 1, FK_ACCUMULATE_F64, 0, 0, nullptr};
inline constexpr int kThreads = 64, kManyThreads = 64;  // the emulation runs them in turn
inline constexpr int64_t kMaxBlocks = 5;                // so that blocks take several turns
inline double* dynamic_shared() { return reinterpret_cast<double*>(fk_emulation::dynamic_shared()); }
using fk_emulation::multiply;
#endif

}  // namespace fkr
