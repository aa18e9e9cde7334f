// SPDX-License-Identifier: Apache-2.0
// out = x @ weight^T (+ bias) for up to 256 rows of x: bound by both the weights and the tensor cores. Tiles are 128 rows of x by kN
// of weights, of a width that fills the multiprocessors evenly where the powers of two of libraries leave a part of them idle; what
// is too narrow for that shares K as well. A cluster is two tiles by kSplit parts of K. The two have either the same rows of weights
// (more than 128 rows of x) or the same rows of x: each block fetches half of those for both. Blocks are persistent.
//   warps 0-7   two warpgroups, 64 rows of x each: wgmma.m64nNk16, both operands in shared memory
//   warp 8      fills a ring of stages of 64 elements of K; the first weights before the kernel before this one has ended
// Where K is shared, the block of part 0 of K writes the upper rows of the tile and the other one the lower: a warpgroup hands its
// sums to the one that has the same rows there.
#pragma once
#include "attention_common.cuh"
#include "wgmma.cuh"

namespace fkc {

namespace tiled {

constexpr int kRows = 128, kBox = 64, kDeep = 64, kRowsMax = 2 * kRows, kThreads = 384, kBarriers = 1024, kSharedMax = 224 << 10, kStagesMax = 8;
constexpr int kBytesX = kRows * kDeep * 2, kBytesBox = kBytesX / 2;
constexpr int sum_bytes(int n, int split) { return split > 1 ? kBox * n * 4 : 0; }
constexpr int stage_bytes(int n) { return kBytesX + n * kDeep * 2; }
constexpr int stages_of(int n, int split) { return std::min(kStagesMax, (kSharedMax - 1024 - kBarriers - sum_bytes(n, split)) / stage_bytes(n)); }
constexpr int shared_bytes(int n, int split) { return 1024 + kBarriers + stages_of(n, split) * stage_bytes(n) + sum_bytes(n, split); }  // 1024: alignment

struct Arguments {
  const void* bias;  // null, or of the dtype of out
  void* out;         // [rows, n]
  int rows, n, k;    // n: a multiple of 8, k: of 64
  bool wide;         // out is float32
};

// A block's place: which of two tiles, which part of K; what it has of both.
template <int kSplit> struct Place {
  bool high;  // the two tiles are the two halves of the rows of x
  int which, part, first, chunks, items, item, step;
  __device__ explicit Place(const Arguments& a, int tile_n) : high(a.rows > kRows) {
    const int rank = int(blockIdx.x) % (2 * kSplit), all = a.k / kDeep, tiles = (a.n + tile_n - 1) / tile_n;
    which = rank % 2, part = rank / 2;
    first = all * part / kSplit, chunks = all * (part + 1) / kSplit - first;
    items = high ? tiles : (tiles + 1) / 2, item = int(blockIdx.x) / (2 * kSplit), step = int(gridDim.x) / (2 * kSplit);
  }
  __device__ int row() const { return high ? which * kRows : 0; }
  __device__ int tile(int of) const { return high ? of : of * 2 + which; }
  __device__ int rank_of(int other_which, int other_part) const { return other_part * 2 + other_which; }
};

template <int kN, int kSplit> struct Ring {
  static constexpr int kStages = stages_of(kN, kSplit), kStage = stage_bytes(kN), kSums = kBarriers + kStages * kStage, kSumBytes = sum_bytes(kN, kSplit);
  uint32_t base;
  int stage = 0, turn = 0;
  __device__ uint32_t full() const { return base + stage * 8; }
  __device__ uint32_t empty(int of) const { return base + 64 + of * 8; }
  __device__ uint32_t sums_full() const { return base + 128; }
  __device__ uint32_t sums_free() const { return base + 136; }  // at those who hand over
  __device__ uint32_t at() const { return base + kBarriers + stage * kStage; }
  __device__ void next() {
    if (++stage == kStages) stage = 0, ++turn;
  }
};

// By one thread. The first turn of the ring is special: its weights come before x exists.
template <int kN, int kSplit> struct Filler {
  using R = Ring<kN, kSplit>;
  const CUtensorMap &x, &weight;
  R ring;
  Place<kSplit> place;
  int chunk = 0;

  __device__ bool more() const { return place.item < place.items; }
  __device__ void next() {
    ring.next();
    if (++chunk == place.chunks) chunk = 0, place.item += place.step;
  }
  // Two boxes; if they are shared, this block's one for both.
  __device__ void fetch(uint32_t to, const CUtensorMap& map, int row, int box_rows, bool shared) {
    const int bytes = box_rows * kDeep * 2, k64 = place.first + chunk;
    if (shared) return copy_box_to(to + place.which * bytes, map, row + place.which * box_rows, k64, ring.full(), uint16_t(3 << place.part * 2));
    copy_box(to, map, row, k64, ring.full());
    copy_box(to + bytes, map, row + box_rows, k64, ring.full());
  }
  __device__ void fetch_weight() {
    barrier_expect(ring.full(), R::kStage);
    fetch(ring.at() + kBytesX, weight, place.tile(place.item) * kN, kN / 2, place.high);
  }
  __device__ void fetch_x() { fetch(ring.at(), x, place.row(), kBox, !place.high); }
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

// Of four words of each lane of four, word i of lane q to word q of lane i.
__device__ inline void turn_four(uint32_t (&w)[4]) {
  const int q = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const uint32_t got = __shfl_xor_sync(0xffffffffu, q & 1 ? w[i] : w[i + 1], 1);
    w[i] = q & 1 ? got : w[i], w[i + 1] = q & 1 ? w[i + 1] : got;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t got = __shfl_xor_sync(0xffffffffu, q & 2 ? w[i] : w[i + 2], 2);
    w[i] = q & 2 ? got : w[i], w[i + 2] = q & 2 ? w[i + 2] : got;
  }
}

// The sums of a warpgroup, 64 rows from `row` by kN columns: of every eight columns a lane has two, of two rows.
template <class T, int kN> __device__ void write(const float (&acc)[kN / 2], const Arguments& a, int row, int column) {
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

// Between the two blocks that share K: a warpgroup hands its sums to the other block (and is told that it need not write), or adds
// what it gets from there.
template <int kN> __device__ bool add_up(float (&acc)[kN / 2], const Ring<kN, 2>& ring, float* sums, const Place<2>& place, int round) {
  const int group = int(threadIdx.x) / 128, thread = int(threadIdx.x) % 128, there = place.rank_of(place.which, 1 - place.part);
  if (group != place.part) {
    if (round > 0) barrier_wait(ring.sums_free(), (round - 1) & 1);
    const uint32_t barrier = in_block(ring.sums_full(), there), to = in_block(shared_address(sums) + thread * 16, there);
#pragma unroll
    for (int i = 0; i < kN / 8; ++i) store_in(to + i * 128 * 16, make_float4(acc[i * 4], acc[i * 4 + 1], acc[i * 4 + 2], acc[i * 4 + 3]), barrier);
    return false;
  }
  if (thread == 0) barrier_expect(ring.sums_full(), ring.kSumBytes);
  barrier_wait(ring.sums_full(), round & 1);
#pragma unroll
  for (int i = 0; i < kN / 8; ++i) {
    const float4 v = reinterpret_cast<const float4*>(sums)[i * 128 + thread];
    acc[i * 4] += v.x, acc[i * 4 + 1] += v.y, acc[i * 4 + 2] += v.z, acc[i * 4 + 3] += v.w;
  }
  barrier_arrive_in(in_block(ring.sums_free(), there));
  return true;
}

// By the two warpgroups.
template <class T, int kN, int kSplit> __device__ void multiply_tiles(Ring<kN, kSplit> ring, float* sums, Place<kSplit> place, const Arguments& a) {
  const int group = int(threadIdx.x) / 128, lane = threadIdx.x % 32;
  const auto done_with = [&](int stage) {  // for both blocks that fill it
    if (lane < 2) barrier_arrive_unordered(in_block(ring.empty(stage), place.rank_of(lane, place.part)));
  };
  for (int round = 0; place.item < place.items; place.item += place.step, ++round) {
    float acc[kN / 2] = {};
    int last = -1;
    for (int c = 0; c < place.chunks; ++c) {
      barrier_wait(ring.full(), ring.turn & 1);
      const uint64_t left = wgmma_operand(ring.at() + group * kBytesBox), right = wgmma_operand(ring.at() + kBytesX);
      wgmma_begin();
#pragma unroll
      for (int i = 0; i < kDeep / 16; ++i) wgmma<T, kN>(acc, left + i * 2, right + i * 2, c + i > 0);
      wgmma_commit();
      wgmma_wait<1>();
      if (last >= 0) done_with(last);
      last = ring.stage;
      ring.next();
    }
    wgmma_wait<0>();
    done_with(last);
    if constexpr (kSplit > 1) {
      if (!add_up<kN>(acc, ring, sums, place, round)) continue;
    }
    write<T, kN>(acc, a, place.row() + group * kBox, place.tile(place.item) * kN);
  }
}

template <class T, int kN, int kSplit>
__global__ void __launch_bounds__(kThreads, 1) many_rows(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap weight, const Arguments a) {
  char* const unaligned = dynamic_shared();
  using R = Ring<kN, kSplit>;
  static_assert(R::kStages >= 3 && kN % 32 == 0 && kSplit <= 2);
  char* const shared = unaligned + (-shared_address(unaligned) & 1023U);
  const R ring{shared_address(shared)};
  const Place<kSplit> place(a, kN);
  let_next_start();
  if (threadIdx.x == 0) {
    for (int i = 0; i < R::kStages; ++i) barrier_init(ring.base + i * 8, 1), barrier_init(ring.empty(i), 2 * 8);
    barrier_init(ring.sums_full(), 1), barrier_init(ring.sums_free(), 128);
    fence_barriers();
  }
  __syncthreads();
  cluster_sync();
  if (threadIdx.x >= 256) {
    fewer_registers<40>();
    if (threadIdx.x == 256) {
      Filler<kN, kSplit> filler{x, weight, ring, place};
      filler.first_weights();
      wait_for_previous();
      filler.rest();
    }
  } else {
    more_registers<232>();
    multiply_tiles<T, kN, kSplit>(ring, reinterpret_cast<float*>(shared + R::kSums), place, a);
  }
  __syncwarp();
  cluster_sync();  // shared memory and barriers must last while the others write to them
}

}  // namespace tiled

}  // namespace fkc
