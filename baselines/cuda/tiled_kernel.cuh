// SPDX-License-Identifier: Apache-2.0
// out = x @ weight^T (+ bias) for 129 to 256 rows of x: bound by both the weights and the tensor cores. Tiles are 128 rows of x by kN
// of weights, a width that fills the multiprocessors evenly where the powers of two of libraries leave a part of them idle. A cluster
// of two has the tiles above and below each other, and each block fetches half of their rows of weights for both. Blocks are persistent.
//   warps 0-7   two warpgroups, 64 rows of x each: wgmma.m64nNk16, both operands in shared memory
//   warp 8      fills a ring of stages of 64 elements of K; the first weights before the kernel before this one has ended
#pragma once
#include "common.cuh"
#include "stage_ring.cuh"
#include "wgmma.cuh"

namespace fkc {

namespace tiled {

constexpr int kN = 224, kRows = 128, kBox = 64, kDeep = 64, kRowsMax = 2 * kRows, kThreads = 384, kBarriers = 1024, kSharedMax = 224 << 10;
constexpr int kBytesX = kRows * kDeep * 2, kBytesBox = kBytesX / 2;
constexpr int kStage = kBytesX + kN * kDeep * 2, kStages = (kSharedMax - 1024 - kBarriers) / kStage, kShared = 1024 + kBarriers + kStages * kStage;  // 1024: alignment
static_assert(kStages >= 3 && kStages <= 8 && kN % 32 == 0);

struct Arguments {
  const void* bias;  // null, or of the dtype of out
  void* out;         // [rows, n]
  int rows, n, k;    // n: a multiple of 8, k: of 64
  bool wide;         // out is float32
};

// A block's place: which of two tiles, and the pairs of its cluster.
struct Place {
  int which, chunks, items, item, step;
  __device__ explicit Place(const Arguments& a) {
    which = int(blockIdx.x) % 2, chunks = a.k / kDeep, items = (a.n + kN - 1) / kN, item = int(blockIdx.x) / 2, step = int(gridDim.x) / 2;
  }
};

using Ring = StageRing<kStages, kBarriers, kStage>;

// By one thread. The first turn of the ring is special: its weights come before x exists.
struct Filler {
  const CUtensorMap &x, &weight;
  Ring ring;
  Place place;
  int chunk = 0;

  __device__ bool more() const { return place.item < place.items; }
  __device__ void next() {
    ring.next();
    if (++chunk == place.chunks) chunk = 0, place.item += place.step;
  }
  // This block's half for both.
  __device__ void fetch_weight() {
    constexpr int kHalf = kN / 2;
    barrier_expect(ring.full(), kStage);
    copy_box_to(ring.at() + kBytesX + place.which * kHalf * kDeep * 2, weight, place.item * kN + place.which * kHalf, chunk, ring.full(), 3);
  }
  __device__ void fetch_x() {
    const int row = place.which * kRows;
    copy_box(ring.at(), x, row, chunk, ring.full());
    copy_box(ring.at() + kBytesBox, x, row + kBox, chunk, ring.full());
  }
  __device__ void first_weights() {
    for (Filler f = *this; f.more() && f.ring.turn == 0; f.next()) f.fetch_weight();
  }
  __device__ void rest() {
    for (; more() && ring.turn == 0; next()) fetch_x();
    for (; more(); next()) {
      barrier_wait(ring.empty(ring.stage), (ring.turn - 1) & 1);
      fetch_weight();
      fetch_x();
    }
  }
};

// The sums of a warpgroup, 64 rows from `row` by kN columns: of every eight columns a lane has two, of two rows.
template <class T> __device__ void write(const float (&acc)[kN / 2], const Arguments& a, int row, int column) {
  const int lane = threadIdx.x % 32;
  row += int(threadIdx.x) / 32 % 4 * 16 + lane / 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const bool there = row + half * 8 < a.rows;
    const int64_t begin = int64_t(row + half * 8) * a.n;
    if (a.wide) {
#pragma unroll
      for (int j = 0; j < kN / 8; ++j) {
        const int at = column + j * 8 + lane % 4 * 2;
        if (!there || at >= a.n) continue;
        const float* bias = static_cast<const float*>(a.bias);
        const float2 sums = make_float2(acc[j * 4 + half * 2] + (bias ? bias[at] : 0.F), acc[j * 4 + half * 2 + 1] + (bias ? bias[at + 1] : 0.F));
        *reinterpret_cast<float2*>(static_cast<float*>(a.out) + begin + at) = sums;
      }
      continue;
    }
#pragma unroll
    for (int from = 0; from < kN / 8; from += 4) {
      uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int j = from + i, at = column + j * 8 + lane % 4 * 2;
        float2 bias = make_float2(0.F, 0.F);
        if (a.bias && at < a.n) bias = make_float2(to_float(static_cast<const T*>(a.bias)[at]), to_float(static_cast<const T*>(a.bias)[at + 1]));
        words[i] = pair<T>(acc[j * 4 + half * 2] + bias.x, acc[j * 4 + half * 2 + 1] + bias.y);
      }
      turn_four(words);
      const int at = column + (from + lane % 4) * 8;
      if (there && at < a.n) *reinterpret_cast<uint4*>(static_cast<T*>(a.out) + begin + at) = make_uint4(words[0], words[1], words[2], words[3]);
    }
  }
}

// By the two warpgroups.
template <class T> __device__ void multiply_tiles(Ring ring, Place place, const Arguments& a) {
  const int group = int(threadIdx.x) / 128, lane = threadIdx.x % 32;
  const auto done_with = [&](int stage) {  // for both blocks that fill it
    if (lane < 2) barrier_arrive_unordered(in_block(ring.empty(stage), lane));
  };
  for (; place.item < place.items; place.item += place.step) {
    float acc[kN / 2] = {};
    int last = -1;
    for (int c = 0; c < place.chunks; ++c) {
      barrier_wait(ring.full(), ring.turn & 1);
      const uint64_t left = wgmma_operand(ring.at() + group * kBytesBox), right = wgmma_operand(ring.at() + kBytesX);
      wgmma_begin(acc);
#pragma unroll
      for (int i = 0; i < kDeep / 16; ++i) wgmma<T, kN>(acc, left + i * 2, right + i * 2, c + i > 0);
      wgmma_commit();
      wgmma_wait<1>();
      if (last >= 0) done_with(last);
      last = ring.stage;
      ring.next();
    }
    wgmma_wait<0>(acc);
    done_with(last);
    write<T>(acc, a, place.which * kRows + group * kBox, place.item * kN);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads, 1) many_rows(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap weight, const Arguments a) {
  char* const unaligned = dynamic_shared();
  const Ring ring{shared_address(unaligned + (-shared_address(unaligned) & 1023U))};
  const Place place(a);
  let_next_start();
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) barrier_init(ring.base + i * 8, 1), barrier_init(ring.empty(i), 2 * 8);
    fence_barriers();
  }
  __syncthreads();
  cluster_sync();
  if (threadIdx.x >= 256) {
    fewer_registers<40>();
    if (threadIdx.x == 256) {
      Filler filler{x, weight, ring, place};
      filler.first_weights();
      wait_for_previous();
      filler.rest();
    }
  } else {
    more_registers<232>();
    multiply_tiles<T>(ring, place, a);
  }
  __syncwarp();
  cluster_sync();  // shared memory and barriers must last while the other block writes to them
}

}  // namespace tiled

}  // namespace fkc
