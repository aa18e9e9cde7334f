// SPDX-License-Identifier: Apache-2.0
// The little that a GPU does otherwise than test/cuda_emulation, which compiles the same sources as C++ and runs
// them on the CPU: what the provider says of itself, dynamic shared memory, sizes of blocks, one instruction.
#pragma once
#include <cuda_runtime.h>

#include "fk/cpp/plugin.hpp"

namespace fkr {

#ifdef __CUDACC__
inline constexpr int32_t kSm[] = {90};
inline constexpr fk_claims kClaims{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_ALWAYS, 1, 1, FK_ACCUMULATE_F64, 0, 1, kSm};
inline constexpr int kThreads = 256;       // of a block, where nothing else is said
inline constexpr int kManyThreads = 1024;  // where a block has much to do
inline constexpr int64_t kMaxBlocks = int64_t{1} << 20;  // of a grid whose blocks take more than one turn

__device__ inline double* dynamic_shared() {
  extern __shared__ double fkr_shared[];
  return fkr_shared;
}

// c[16][8] += a[16][4] b[4][8] by a warp. Lane l holds a at rows l/4 and l/4+8 of column l%4, b at row l%4 of column
// l/4, c at those rows and columns 2(l%4) and the next.
__device__ inline void multiply(double (&c)[4], double a0, double a1, double b) {
  asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
      : "d"(a0), "d"(a1), "d"(b));
}
#else
inline constexpr fk_claims kClaims{FK_END(fk_claims, sm), FK_CPU, FK_GRAPH_ALWAYS, 1, 1, FK_ACCUMULATE_F64, 0, 0, nullptr};
inline constexpr int kThreads = 64, kManyThreads = 64;  // which it takes in turn
inline constexpr int64_t kMaxBlocks = 5;                // so that more than one turn is ordinary
inline double* dynamic_shared() { return reinterpret_cast<double*>(fk_emulation::dynamic_shared()); }
using fk_emulation::multiply;
#endif

}  // namespace fkr
