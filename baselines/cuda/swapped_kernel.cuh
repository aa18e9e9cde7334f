// SPDX-License-Identifier: Apache-2.0
// out = x @ weight^T (+ bias) for some rows of x: still bound by reading the weights, but with too many rows to keep x in
// shared memory. The operands of wgmma are swapped: weights are the side of 64 rows, x is the narrow one, so few rows
// waste nothing. Blocks are persistent; a tile is 64 rows of weights by all rows of x, kN at most. Where tiles are too few for
// all multiprocessors, a cluster of kSplit blocks shares a tile: each has a part of K, and adds up and writes its part of the rows of weights.
//   warps 0-7    two warpgroups, each half of every stage: wgmma.m64nNk16
//   warps 8-11   add their sums up and write, while the others are at the next tile
//   warp 12      fills the ring; the first weights before the kernel before this one has ended
#pragma once
#include "stage_ring.cuh"
#include "wgmma.cuh"

namespace fkc {

namespace swapped {

constexpr int kRows = 64, kDeep = 128, kWarps = 8, kWriters = 4, kThreads = 32 * (kWarps + kWriters + 1), kRowsMax = 64;
constexpr int kNarrow = 2048, kWide = 32768;  // least rows of weights that are worth it: up to 32 rows of x, and more
constexpr int kBytesWeight = kRows * kDeep * 2, kPitch = kRows + 4;  // kPitch: floats of a row of x in sums
constexpr int kBarriers = 1024, kSharedMax = 224 << 10, kStagesMax = 8;
constexpr int bytes_x(int n) { return n * kDeep * 2; }
constexpr int sum_bytes(int n) { return 2 * n * kPitch * 4 + n * kRows * 4; }  // of both warpgroups, and what other blocks have sent
constexpr int stages_of(int n) { return std::min(kStagesMax, (kSharedMax - 1024 - kBarriers - sum_bytes(n)) / (kBytesWeight + bytes_x(n))); }
constexpr int shared_bytes(int n) { return 1024 + kBarriers + stages_of(n) * (kBytesWeight + bytes_x(n)) + sum_bytes(n); }  // 1024: alignment

template <class O> struct Arguments {
  const O* bias;
  O* out;  // [rows, n]
  int rows, n, k;
};

template <int kN> struct Ring : StageRing<stages_of(kN), kBarriers, kBytesWeight + bytes_x(kN)> {
  static constexpr int kSums = kBarriers + Ring::kStages * Ring::kStage, kSent = kSums + 2 * kN * kPitch * 4;
  using Ring::StageRing::base;
  __device__ uint32_t sent() const { return base + 128; }
  __device__ uint32_t sent_free() const { return base + 136; }  // at those who send
  // Between those who multiply and those who write; every thread arrives for itself, which tools can follow.
  __device__ uint32_t summed() const { return base + 144; }
  __device__ uint32_t written() const { return base + 152; }
};

// What a block has of a tile, and the tiles of its cluster.
template <int kSplit> struct Place {
  int part, first, chunks, tiles, tile, step;
  template <class O> __device__ explicit Place(const Arguments<O>& a) {
    const int all = (a.k + kDeep - 1) / kDeep;
    part = int(blockIdx.x) % kSplit, tile = int(blockIdx.x) / kSplit, step = int(gridDim.x) / kSplit, tiles = (a.n + kRows - 1) / kRows;
    first = all * part / kSplit, chunks = all * (part + 1) / kSplit - first;
  }
};

// By one thread. The first turn of the ring is special: its weights come before x exists.
template <int kN, int kSplit> struct Filler {
  const CUtensorMap &x, &weight;
  Ring<kN> ring;
  Place<kSplit> place;
  const uint64_t policy = read_once();
  int chunk = 0;

  __device__ bool more() const { return place.tile < place.tiles; }
  __device__ void next() {
    ring.next();
    if (++chunk == place.chunks) chunk = 0, place.tile += place.step;
  }
  __device__ int k64() const { return (place.first + chunk) * (kDeep / 64); }
  __device__ void fetch_weight() {
    barrier_expect(ring.full(), Ring<kN>::kStage);
    copy_box(ring.at(), weight, place.tile * kRows, k64(), ring.full(), policy);
  }
  __device__ void fetch_x() { copy_box(ring.at() + kBytesWeight, x, 0, k64(), ring.full()); }
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

// By the two warpgroups.
template <class T, int kN, int kSplit> __device__ void multiply_tiles(Ring<kN> ring, float* sums, const Place<kSplit>& place) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = warp / 4;
  float* const own = sums + group * kN * kPitch + warp % 4 * 16 + lane / 4;
  int round = 0;
  for (int tile = place.tile; tile < place.tiles; tile += place.step, ++round) {
    float acc[kN / 2] = {};
    int last = -1;
    for (int c = 0; c < place.chunks; ++c) {
      barrier_wait(ring.full(), ring.turn & 1);
      const uint64_t left = wgmma_operand(ring.at() + group * (kBytesWeight / 2)), right = wgmma_operand(ring.at() + kBytesWeight + group * (Ring<kN>::kStage - kBytesWeight) / 2);
      wgmma_begin(acc);
#pragma unroll
      for (int i = 0; i < kDeep / 32; ++i) wgmma<T, kN>(acc, left + i * 2, right + i * 2, c + i > 0);
      wgmma_commit();
      wgmma_wait<1>();
      if (last >= 0 && lane == 0) barrier_arrive(ring.empty(last));
      last = ring.stage;
      ring.next();
    }
    wgmma_wait<0>(acc);
    if (lane == 0) barrier_arrive(ring.empty(last));

    if (round > 0) barrier_wait(ring.written(), (round - 1) & 1);
#pragma unroll
    for (int j = 0; j < kN / 8; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) own[(j * 8 + lane % 4 * 2 + i % 2) * kPitch + i / 2 * 8] = acc[j * 4 + i];
    barrier_arrive(ring.summed());
  }
}

// By the warps that write. Of a tile's 64 columns of out, `kOwn` are this block's; what it has of the others goes to their blocks.
template <int kN, int kSplit, class O> __device__ void write_tiles(const Ring<kN>& ring, const float* sums, const float* sent, const Arguments<O>& a, const Place<kSplit>& place) {
  constexpr int kOwn = kRows / kSplit, kFours = kOwn / 4;
  const int thread = int(threadIdx.x) - 32 * kWarps, lane = thread % 32, count = a.rows * kFours;
  const auto sum = [&](int row, int at) {
    const float4 one = *reinterpret_cast<const float4*>(sums + row * kPitch + at), two = *reinterpret_cast<const float4*>(sums + (kN + row) * kPitch + at);
    return make_float4(one.x + two.x, one.y + two.y, one.z + two.z, one.w + two.w);
  };
  int round = 0;
  for (int tile = place.tile; tile < place.tiles; tile += place.step, ++round) {
    const bool more = tile + place.step < place.tiles;
    barrier_wait(ring.summed(), round & 1);
    if constexpr (kSplit > 1) {
      if (round > 0) barrier_wait(ring.sent_free(), (round - 1) & 1);
      for (int other = 1; other < kSplit; ++other) {
        const int to = (place.part + other) % kSplit;
        const uint32_t there = in_block(ring.base + Ring<kN>::kSent + place.part * kN * kOwn * 4, to), barrier = in_block(ring.sent(), to);
        for (int i = thread; i < count; i += 32 * kWriters) store_in(there + i * 16, sum(i / kFours, to * kOwn + i % kFours * 4), barrier);
      }
      if (thread == 0) barrier_expect(ring.sent(), (kSplit - 1) * count * 16);
      barrier_wait(ring.sent(), round & 1);
    }
    for (int i = thread; i < count; i += 32 * kWriters) {
      const int row = i / kFours, at = i % kFours * 4, column = tile * kRows + place.part * kOwn + at;
      float v[4] = {};
#pragma unroll
      for (int part = 0; part < kSplit; ++part) {
        const float4 w = part == place.part ? sum(row, place.part * kOwn + at) : *reinterpret_cast<const float4*>(sent + (part * kN * kOwn + i * 4));
        v[0] += w.x, v[1] += w.y, v[2] += w.z, v[3] += w.w;
      }
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (column + j < a.n) a.out[int64_t(row) * a.n + column + j] = as<O>(v[j] + (a.bias ? value_of(a.bias[column + j]) : 0.F));
    }
    if (!more) break;
    barrier_arrive(ring.written());
    if constexpr (kSplit > 1) {
      __syncwarp();
      if (lane < kSplit && lane != place.part) barrier_arrive_in(in_block(ring.sent_free(), lane));
    }
  }
}

template <class T, class O, int kN, int kSplit>
__global__ void __launch_bounds__(kThreads, 1)
some_rows(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap weight, const Arguments<O> a) {
  char* const unaligned = dynamic_shared();
  char* const shared = unaligned + (-shared_address(unaligned) & 1023U);
  const Ring<kN> ring{shared_address(shared)};
  float* const sums = reinterpret_cast<float*>(shared + Ring<kN>::kSums);
  const Place<kSplit> place(a);
  Filler<kN, kSplit> filler{x, weight, ring, place};
  const bool fills = threadIdx.x == 32 * (kWarps + kWriters);
  let_next_start();
  if (fills) {
    for (int i = 0; i < Ring<kN>::kStages; ++i) barrier_init(ring.base + i * 8, 1), barrier_init(ring.empty(i), kWarps);
    barrier_init(ring.sent(), 1), barrier_init(ring.sent_free(), kSplit > 1 ? (kSplit - 1) * kWriters : 1);
    barrier_init(ring.summed(), 32 * kWarps), barrier_init(ring.written(), 32 * kWriters);
    fence_barriers();
    filler.first_weights();
  }
  __syncwarp();
  if (kSplit > 1) cluster_sync();
  else __syncthreads();
  if (int(threadIdx.x) < 32 * kWarps) {
    multiply_tiles<T, kN>(ring, sums, place);
  } else if (int(threadIdx.x) < 32 * (kWarps + kWriters)) {
    write_tiles<kN>(ring, sums, reinterpret_cast<const float*>(shared + Ring<kN>::kSent), a, place);
  } else if (fills) {
    wait_for_previous();
    filler.rest();
  }
}

}  // namespace swapped

}  // namespace fkc
