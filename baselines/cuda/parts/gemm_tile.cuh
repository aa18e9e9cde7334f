// SPDX-License-Identifier: Apache-2.0
// A tile of 128 x 128 of a product on mma.sync, or of half as many rows or columns, with three
// stages of cp.async. The block gathers both operands itself, in pieces of eight elements. Eight
// warps have kHigh times 16 rows by kAcross times 8 columns each.
#pragma once
#include "cp_async.cuh"
#include "mma.cuh"
#include "swizzle.cuh"

namespace fkc {

constexpr int kTile = 128, kDepth = 64, kTileStages = 3, kTileThreads = 256;
// Bytes of an operand of a stage, and of all stages.
template <int kFragments>
constexpr int kTileSide = 32 * kFragments* kDepth * 2;
constexpr int kTileShared = kTileStages * 2 * kTileSide<4>;

// The place of a row's piece of eight elements in an operand of a stage.
__device__ inline uint32_t in_tile(uint32_t side, int row, int piece) {
  return swizzled<kDepth / 8>(side, row, piece);
}

// load(step, left, right) copies 64 elements of K of all rows of both operands by cp_async_16(), to
// the places of in_tile().
template <class T, int kHigh, int kAcross, class Load>
__device__ void tile_product(char* shared, int steps, float (&acc)[kHigh][kAcross][4], Load load) {
  constexpr int kStage = kTileSide<kHigh> + kTileSide<kAcross>;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row0 = warp / 4 * 16 * kHigh,
            column0 = warp % 4 * 8 * kAcross;
  const uint32_t base = shared_address(shared);
  const auto side = [&](int step) { return base + step % kTileStages * kStage; };
  const auto load_if_any = [&](int step) {
    if (step < steps) load(step, side(step), side(step) + kTileSide<kHigh>);
    cp_async_commit();
  };
#pragma unroll
  for (int s = 0; s < kTileStages - 1; ++s) load_if_any(s);
#pragma unroll
  for (int i = 0; i < kHigh; ++i)
#pragma unroll
    for (int j = 0; j < kAcross; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) acc[i][j][e] = 0;
  for (int step = 0; step < steps; ++step) {
    cp_async_wait<kTileStages - 2>();
    __syncthreads();
    load_if_any(step + kTileStages - 1);
    const uint32_t left = side(step), right = left + kTileSide<kHigh>;
#pragma unroll
    for (int d = 0; d < kDepth / 16; ++d) {
      uint32_t a[kHigh][4], b[kAcross / 2][4];
#pragma unroll
      for (int i = 0; i < kHigh; ++i)
        ldmatrix(a[i], in_tile(left, row0 + i * 16 + lane % 16, d * 2 + lane / 16));
#pragma unroll
      for (int j = 0; j < kAcross / 2; ++j)
        ldmatrix(b[j],
                 in_tile(right, column0 + j * 16 + lane % 8 + lane / 16 * 8, d * 2 + lane / 8 % 2));
#pragma unroll
      for (int i = 0; i < kHigh; ++i)
#pragma unroll
        for (int j = 0; j < kAcross; ++j)
          mma_m16n8k16<T>(acc[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
  }
}

// f(row, column, v, w) for the sums of this thread: two neighbours of a row of the tile at a time.
template <int kHigh, int kAcross, class F>
__device__ void each_of_tile(const float (&acc)[kHigh][kAcross][4], F f) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32,
            row0 = warp / 4 * 16 * kHigh + lane / 4,
            column0 = warp % 4 * 8 * kAcross + lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < kHigh; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int j = 0; j < kAcross; ++j)
        f(row0 + i * 16 + h * 8, column0 + j * 8, acc[i][j][2 * h], acc[i][j][2 * h + 1]);
}

}  // namespace fkc
