// SPDX-License-Identifier: Apache-2.0
// A product of many rows, sorted by expert, with the matrices of their experts on wgmma: out = x @ weight[e]^T, or
// gated: silu(x @ gate[e]^T) * (x @ up[e]^T). Blocks are persistent; which tiles there are is known on the device
// alone, from `offsets`. A tile is 128 rows by 256 rows of weights (gated: 128 of gate and as many of up), those of an
// expert go by rows first, so that its weights are read from memory once.
//   warps 0-7   two warpgroups, 64 rows each: wgmma.m64n256k16, both operands in shared memory (128-byte swizzle)
//   warp 8      fills a ring of four stages of 64 elements of K with the tensor copy engine
#pragma once
#include "async_copy.cuh"
#include "wgmma.cuh"

namespace fkc {

namespace grouped {

constexpr int kRows = 128, kWide = 256, kDeep = 64, kStages = 4, kThreads = 384;
constexpr int kBytesX = kRows * kDeep * 2, kBytesWeight = kWide * kDeep * 2, kStage = kBytesX + kBytesWeight;
constexpr int kShared = 1024 + kStages * kStage + 1024;  // barriers, ring, alignment

template <class T> struct Arguments {
  T* out;                  // [rows, n]
  const int32_t* offsets;  // [experts + 1]
  int experts, n, k;
};

// Goes through the tiles of a block.
struct Tiles {
  const int32_t* offsets;
  int experts, columns;  // tiles of n
  int expert = 0, before = 0, row = 0, rows = 0, column = 0;
  __device__ bool find(int tile) {
    for (; expert < experts; ++expert) {
      const int begin = offsets[expert], end = offsets[expert + 1], high = (end - begin + kRows - 1) / kRows;
      if (tile < before + high * columns) {
        const int at = tile - before;
        row = begin + at % high * kRows, rows = end - row, column = at / high;
        return true;
      }
      before += high * columns;
    }
    return false;
  }
};

__device__ inline void copy_tile(uint32_t to, const CUtensorMap& map, int k, int row, uint32_t barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               ::"r"(to), "l"(&map), "r"(k), "r"(row), "r"(barrier) : "memory");
}

// The rows of a warpgroup: of every eight columns a lane has two, of two rows.
template <class T, bool kGated> __device__ void write(const float (&acc)[128], const Arguments<T>& a, const Tiles& tile) {
  const int lane = threadIdx.x % 32, first = threadIdx.x / 32 * 16 + lane / 4;
  constexpr int kOut = kGated ? kWide / 2 : kWide;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first + half * 8;
    if (row >= tile.rows) continue;
    T* out = a.out + int64_t(tile.row + row) * a.n;
#pragma unroll
    for (int j = 0; j < kOut / 8; ++j) {
      const int column = tile.column * kOut + j * 8 + lane % 4 * 2;
      float v[2] = {acc[j * 4 + half * 2], acc[j * 4 + half * 2 + 1]};
      if constexpr (kGated) {
#pragma unroll
        for (int i = 0; i < 2; ++i) v[i] = v[i] / (1.F + __expf(-v[i])) * acc[64 + j * 4 + half * 2 + i];
      }
      union { T at[2]; uint32_t raw; } two;
      two.at[0] = from_float<T>(v[0]), two.at[1] = from_float<T>(v[1]);
      if (column < a.n) *reinterpret_cast<uint32_t*>(out + column) = two.raw;  // n is even
    }
  }
}

template <class T, bool kGated>
__global__ void __launch_bounds__(kThreads, 1) many_rows(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap weight, const Arguments<T> a) {
  extern __shared__ char shared[];
  const uint32_t base = (shared_address(shared) + 1023) & ~1023U, ring = base + 1024;
  const auto full = [&](int stage) { return base + stage * 8; };
  const auto empty = [&](int stage) { return base + 128 + stage * 8; };
  constexpr int kOut = kGated ? kWide / 2 : kWide;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, chunks = (a.k + kDeep - 1) / kDeep;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) barrier_init(full(i), 1), barrier_init(empty(i), 8);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  wait_for_inputs();
  Tiles tile{a.offsets, a.experts, (a.n + kOut - 1) / kOut};
  int stage = 0, turn = 0;
  if (warp >= 8) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (warp == 8 && lane == 0) {
      for (int at = blockIdx.x; tile.find(at); at += gridDim.x) {
        const int first = tile.expert * (kGated ? 2 * a.n : a.n) + tile.column * kOut;
        for (int c = 0; c < chunks; ++c) {
          if (turn > 0) barrier_wait(empty(stage), (turn - 1) & 1);
          const uint32_t to = ring + stage * kStage;
          barrier_expect(full(stage), kStage);
          copy_tile(to, x, c * kDeep, tile.row, full(stage));
          copy_tile(to + kBytesX, weight, c * kDeep, first, full(stage));
          copy_tile(to + kBytesX + kBytesWeight / 2, weight, c * kDeep, first + (kGated ? a.n : kWide / 2), full(stage));
          if (++stage == kStages) stage = 0, ++turn;
        }
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    float acc[128];
    for (int at = blockIdx.x; tile.find(at); at += gridDim.x) {
      int last = -1;
      for (int c = 0; c < chunks; ++c) {
        barrier_wait(full(stage), turn & 1);
        const uint64_t left = wgmma_operand(ring + stage * kStage + warp / 4 * (kBytesX / 2)), right = wgmma_operand(ring + stage * kStage + kBytesX);
        wgmma_begin();
#pragma unroll
        for (int i = 0; i < kDeep / 16; ++i) wgmma_256<T>(acc, left + i * 2, right + i * 2, c + i > 0);
        wgmma_commit();
        wgmma_wait<1>();
        if (last >= 0 && lane == 0) barrier_arrive(empty(last));
        last = stage;
        if (++stage == kStages) stage = 0, ++turn;
      }
      wgmma_wait<0>();
      if (lane == 0) barrier_arrive(empty(last));
      write<T, kGated>(acc, a, tile);
    }
  }
}

}  // namespace grouped

}  // namespace fkc
