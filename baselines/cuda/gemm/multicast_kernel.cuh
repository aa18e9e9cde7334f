// SPDX-License-Identifier: Apache-2.0
// out = x @ weight^T (+ bias) for 129 to 256 rows of x, bound by weights and tensor cores alike.
// Tiles are 128 rows of x by kN rows of weights. This width fills the multiprocessors evenly, while
// the powers of two of libraries leave some of them idle. A cluster of two blocks has two tiles,
// one below the other, and each block loads half of the weights for both (TMA multicast). Blocks
// are persistent.
//   warps 0-7   two warpgroups, 64 rows of x each: wgmma.m64nNk16, both operands in shared memory
//   warp 8      fills a ring of stages of 64 elements of K; the first weights come before the previous
//               kernel has ended
#pragma once
#include "../parts/op.cuh"
#include "../parts/pipeline.cuh"

namespace fkc {

namespace multicast {

constexpr int kN = 224, kRows = 128, kBox = 64, kDeep = 64, kRowsMax = 2 * kRows, kThreads = 384, kBarriers = 1024, kSharedMax = 224 << 10;
constexpr int kBytesX = kRows * kDeep * 2, kBytesBox = kBytesX / 2;
constexpr int kStage = kBytesX + kN * kDeep * 2, kStages = (kSharedMax - 1024 - kBarriers) / kStage, kShared = 1024 + kBarriers + kStages * kStage;  // 1024: alignment
static_assert(kStages >= 3 && kStages <= 8 && kN % 32 == 0);

struct Arguments {
  const void* bias;  // null, or with the dtype of out
  void* out;         // [rows, n]
  int rows, n, k;    // n: a multiple of 8; k: a multiple of 64
  bool wide;         // out is float32
};

// A block's place in its cluster, and the tiles of the cluster.
struct Place {
  int which, chunks, items, item, step;
  __device__ explicit Place(const Arguments& a) {
    which = int(blockIdx.x) % 2, chunks = a.k / kDeep, items = (a.n + kN - 1) / kN, item = int(blockIdx.x) / 2, step = int(gridDim.x) / 2;
  }
};

using Ring = StageRing<kStages, kBarriers, kStage, 2>;

// The producer's loads, by one thread.
struct Loads {
  const CUtensorMap &x, &weight;
  Ring ring;
  Place place;
  int chunk = 0;

  __device__ bool more() const { return place.item < place.items; }
  __device__ void next() {
    ring.next();
    if (++chunk == place.chunks) chunk = 0, place.item += place.step;
  }
  // This block's half, for both blocks.
  __device__ void load_weight() {
    constexpr int kHalf = kN / 2;
    mbarrier_arrive_expect_tx(ring.full(), kStage);
    tma_load_k64_multicast(ring.at() + kBytesX + place.which * kHalf * kDeep * 2, weight, place.item * kN + place.which * kHalf, chunk, ring.full(), 3);
  }
  __device__ void load_x() {
    const int row = place.which * kRows;
    tma_load_k64(ring.at(), x, row, chunk, ring.full());
    tma_load_k64(ring.at() + kBytesBox, x, row + kBox, chunk, ring.full());
  }
  __device__ void acquire() const { ring.wait_empty(ring.stage); }
};

// Writes the sums of a warpgroup: 64 rows from `row` on by kN columns. A lane has two of every
// eight columns, of two rows.
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
        words[i] = pack2<T>(acc[j * 4 + half * 2] + bias.x, acc[j * 4 + half * 2 + 1] + bias.y);
      }
      transpose_quad(words);
      const int at = column + (from + lane % 4) * 8;
      if (there && at < a.n) *reinterpret_cast<uint4*>(static_cast<T*>(a.out) + begin + at) = make_uint4(words[0], words[1], words[2], words[3]);
    }
  }
}

// By the two warpgroups.
template <class T> __device__ void multiply_tiles(Ring ring, Place place, const Arguments& a) {
  const int group = int(threadIdx.x) / 128;
  for (; place.item < place.items; place.item += place.step) {
    float acc[kN / 2] = {};
    wgmma_mainloop<T, kN, kDeep / 16, 1>(acc, ring, place.chunks, [&](uint32_t at) { return at + group * kBytesBox; }, [](uint32_t at) { return at + kBytesX; });
    write<T>(acc, a, place.which * kRows + group * kBox, place.item * kN);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads, 1) multicast_gemm(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap weight, const Arguments a) {
  char* const unaligned = dynamic_shared();
  const Ring ring{shared_address(unaligned + (-shared_address(unaligned) & 1023U))};
  const Place place(a);
  launch_dependents();
  if (threadIdx.x == 0) {
    ring.init(8);
    fence_mbarrier_init();
  }
  __syncthreads();
  cluster_sync();
  if (threadIdx.x >= 256) {
    warpgroup_reg_dealloc<40>();
    if (threadIdx.x == 256) {
      Loads loads{x, weight, ring, place};
      load_first_weights(loads);
      grid_dependency_wait();
      load_rest(loads);
    }
  } else {
    warpgroup_reg_alloc<232>();
    multiply_tiles<T>(ring, place, a);
  }
  __syncwarp();
  cluster_sync();  // shared memory and barriers must last while the other block writes to them
}

}  // namespace multicast

}  // namespace fkc
