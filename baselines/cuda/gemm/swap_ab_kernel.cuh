// SPDX-License-Identifier: Apache-2.0
// out = x @ weight^T (+ bias) for some rows of x. Reading the weights is the bound, but rows are
// too many to keep x in shared memory. The operands of wgmma are swapped (swap-AB): weights are the
// side of 64 rows and x the narrow side, so few rows waste nothing. Blocks are persistent. A tile
// is 64 rows of weights by all rows of x, kN at most. If tiles are too few for all multiprocessors,
// a cluster of kSplit blocks shares a tile (split-K). Each block has a part of K, and adds and
// writes its part of the rows of weights.
//   warps 0-7    two warpgroups, each with half of every stage: wgmma.m64nNk16
//   warps 8-11   add the sums and write, while the others compute the next tile
//   warp 12      fills the ring; the first weights come before the previous kernel has ended
#pragma once
#include "../parts/op.cuh"
#include "../parts/pipeline.cuh"

namespace fkc {

namespace swap_ab {

constexpr int kRows = 64, kDeep = 128, kWarps = 8, kWriters = 4,
              kThreads = 32 * (kWarps + kWriters + 1), kRowsMax = 64;
constexpr int kNarrow = 2048,
              kWide = 32768;  // the least rows of weights which pay: up to 32 rows of x, and above
constexpr int kSlimMost = 32768;  // columns of such a matrix: fewer rows of x take it as well
constexpr int kSlim = 256;        // and up to so many with a long K
constexpr int kBytesWeight = kRows * kDeep * 2,
              kPitch = kRows + 4;  // kPitch: floats of a row of x in sums
constexpr int kBarriers = 1024, kSharedMax = 224 << 10, kStagesMax = 8;
constexpr int bytes_x(int n) { return n * kDeep * 2; }
constexpr int sum_bytes(int n) {
  return 2 * n * kPitch * 4 + n * kRows * 4;
}  // of both warpgroups, and from other blocks
constexpr int stages_of(int n) {
  return std::min(kStagesMax,
                  (kSharedMax - 1024 - kBarriers - sum_bytes(n)) / (kBytesWeight + bytes_x(n)));
}
constexpr int shared_bytes(int n) {
  return 1024 + kBarriers + stages_of(n) * (kBytesWeight + bytes_x(n)) + sum_bytes(n);
}  // 1024: alignment

template <class O>
struct Arguments {
  const O* bias;
  O* out;  // [rows, n]
  int rows, n, k;
};

template <int kN>
struct Ring : StageRing<stages_of(kN), kBarriers, kBytesWeight + bytes_x(kN)> {
  static constexpr int kSums = kBarriers + Ring::kStages * Ring::kStage,
                       kSent = kSums + 2 * kN * kPitch * 4;
  using Ring::StageRing::base;
  __device__ uint32_t sent() const { return base + 128; }
  __device__ uint32_t sent_free() const { return base + 136; }  // in the blocks which send
  // Between the warps which multiply and the warps which write. Every thread arrives for itself, so
  // racecheck can follow.
  __device__ uint32_t summed() const { return base + 144; }
  __device__ uint32_t written() const { return base + 152; }
};

// A block's part of a tile, and the tiles of its cluster.
template <int kSplit>
struct Place {
  int part, first, chunks, tiles, tile, step;
  template <class O>
  __device__ explicit Place(const Arguments<O>& a) {
    const int all = (a.k + kDeep - 1) / kDeep;
    part = int(blockIdx.x) % kSplit, tile = int(blockIdx.x) / kSplit,
    step = int(gridDim.x) / kSplit, tiles = (a.n + kRows - 1) / kRows;
    first = all * part / kSplit, chunks = all * (part + 1) / kSplit - first;
  }
};

// The producer's loads, by one thread.
template <int kN, int kSplit>
struct Loads {
  const CUtensorMap &x, &weight;
  Ring<kN> ring;
  Place<kSplit> place;
  const uint64_t policy = l2_evict_first();
  int chunk = 0;

  __device__ bool more() const { return place.tile < place.tiles; }
  __device__ void next() {
    ring.next();
    if (++chunk == place.chunks) chunk = 0, place.tile += place.step;
  }
  __device__ int k64() const { return (place.first + chunk) * (kDeep / 64); }
  __device__ void load_weight() {
    mbarrier_arrive_expect_tx(ring.full(), Ring<kN>::kStage);
    tma_load_k64(ring.at(), weight, place.tile * kRows, k64(), ring.full(), policy);
  }
  __device__ void load_x() { tma_load_k64(ring.at() + kBytesWeight, x, 0, k64(), ring.full()); }
  __device__ void acquire() const { ring.wait_empty(ring.stage); }
};

// By the two warpgroups.
template <class T, int kN, int kSplit>
__device__ void multiply_tiles(Ring<kN> ring, float* sums, const Place<kSplit>& place) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = warp / 4;
  float* const own = sums + group * kN * kPitch + warp % 4 * 16 + lane / 4;
  int round = 0;
  for (int tile = place.tile; tile < place.tiles; tile += place.step, ++round) {
    float acc[kN / 2] = {};
    wgmma_mainloop<T, kN, kDeep / 32, 1>(
        acc, ring, place.chunks, [&](uint32_t at) { return at + group * (kBytesWeight / 2); },
        [&](uint32_t at) {
          return at + kBytesWeight + group * (Ring<kN>::kStage - kBytesWeight) / 2;
        });

    if (round > 0) mbarrier_wait(ring.written(), (round - 1) & 1);
#pragma unroll
    for (int j = 0; j < kN / 8; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        own[(j * 8 + lane % 4 * 2 + i % 2) * kPitch + i / 2 * 8] = acc[j * 4 + i];
    mbarrier_arrive(ring.summed());
  }
}

// By the warps which write. `kOwn` of a tile's 64 columns of out belong to this block. Its sums of
// the other columns go to their blocks.
template <int kN, int kSplit, class O>
__device__ void write_tiles(const Ring<kN>& ring, const float* sums, const float* sent,
                            const Arguments<O>& a, const Place<kSplit>& place) {
  constexpr int kOwn = kRows / kSplit, kFours = kOwn / 4;
  const int thread = int(threadIdx.x) - 32 * kWarps, lane = thread % 32, count = a.rows * kFours;
  const auto sum = [&](int row, int at) {
    const float4 one = *reinterpret_cast<const float4*>(sums + row * kPitch + at),
                 two = *reinterpret_cast<const float4*>(sums + (kN + row) * kPitch + at);
    return make_float4(one.x + two.x, one.y + two.y, one.z + two.z, one.w + two.w);
  };
  int round = 0;
  for (int tile = place.tile; tile < place.tiles; tile += place.step, ++round) {
    const bool more = tile + place.step < place.tiles;
    mbarrier_wait(ring.summed(), round & 1);
    if constexpr (kSplit > 1) {
      if (round > 0) mbarrier_wait(ring.sent_free(), (round - 1) & 1);
      for (int other = 1; other < kSplit; ++other) {
        const int to = (place.part + other) % kSplit;
        const uint32_t there = map_shared_rank(
                           ring.base + Ring<kN>::kSent + place.part * kN * kOwn * 4, to),
                       barrier = map_shared_rank(ring.sent(), to);
        for (int i = thread; i < count; i += 32 * kWriters)
          dsmem_store_async(there + i * 16, sum(i / kFours, to * kOwn + i % kFours * 4), barrier);
      }
      if (thread == 0) mbarrier_arrive_expect_tx(ring.sent(), (kSplit - 1) * count * 16);
      mbarrier_wait(ring.sent(), round & 1);
    }
    for (int i = thread; i < count; i += 32 * kWriters) {
      const int row = i / kFours, at = i % kFours * 4,
                column = tile * kRows + place.part * kOwn + at;
      float v[4] = {};
#pragma unroll
      for (int part = 0; part < kSplit; ++part) {
        const float4 w = part == place.part
                             ? sum(row, place.part * kOwn + at)
                             : *reinterpret_cast<const float4*>(sent + (part * kN * kOwn + i * 4));
        v[0] += w.x, v[1] += w.y, v[2] += w.z, v[3] += w.w;
      }
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (column + j < a.n)
          a.out[int64_t(row) * a.n + column + j] =
              from_float<O>(v[j] + (a.bias ? to_float(a.bias[column + j]) : 0.F));
    }
    if (!more) break;
    mbarrier_arrive(ring.written());
    if constexpr (kSplit > 1) {
      __syncwarp();
      if (lane < kSplit && lane != place.part)
        mbarrier_arrive_remote(map_shared_rank(ring.sent_free(), lane));
    }
  }
}

template <class T, class O, int kN, int kSplit>
__global__ void __launch_bounds__(kThreads, 1)
    swap_ab_split_k_gemm(const __grid_constant__ CUtensorMap x,
                         const __grid_constant__ CUtensorMap weight, const Arguments<O> a) {
  char* const unaligned = dynamic_shared();
  char* const shared = unaligned + (-shared_address(unaligned) & 1023U);
  const Ring<kN> ring{shared_address(shared)};
  float* const sums = reinterpret_cast<float*>(shared + Ring<kN>::kSums);
  const Place<kSplit> place(a);
  Loads<kN, kSplit> loads{x, weight, ring, place};
  const bool fills = threadIdx.x == 32 * (kWarps + kWriters);
  launch_dependents();
  if (fills) {
    ring.init(kWarps);
    mbarrier_init(ring.sent(), 1),
        mbarrier_init(ring.sent_free(), kSplit > 1 ? (kSplit - 1) * kWriters : 1);
    mbarrier_init(ring.summed(), 32 * kWarps), mbarrier_init(ring.written(), 32 * kWriters);
    fence_mbarrier_init();
    load_first_weights(loads);
  }
  __syncwarp();
  if (kSplit > 1)
    cluster_sync();
  else
    __syncthreads();
  if (int(threadIdx.x) < 32 * kWarps) {
    multiply_tiles<T, kN>(ring, sums, place);
  } else if (int(threadIdx.x) < 32 * (kWarps + kWriters)) {
    write_tiles<kN>(ring, sums, reinterpret_cast<const float*>(shared + Ring<kN>::kSent), a, place);
  } else if (fills) {
    grid_dependency_wait();
    load_rest(loads);
  }
}

}  // namespace swap_ab

}  // namespace fkc
