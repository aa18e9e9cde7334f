// SPDX-License-Identifier: Apache-2.0
// Products of rows, sorted by expert, with the matrices of their experts on wgmma: out = x @ weight[e]^T, or gated:
// silu(x @ gate[e]^T) * (x @ up[e]^T). Blocks are persistent; which tiles there are is known on the device alone, from
// `offsets`. The operands of wgmma are swapped: a tile is 128 rows of weights (gated: 64 of gate and 64 of up, eight and
// eight in turn, so that a thread has both) by up to kMost rows of x, and its width follows the rows that there are, so
// that little is multiplied for nothing. The rows of an expert are shared evenly by its tiles; tiles of the same weights
// follow each other, so that these are read from memory once. An expert may have its rows in several segments. Rows of x
// are read by every tile, from the second cache: with kPair = 2 a cluster of two blocks has tiles beside each other and
// each block fetches half of their rows of x for both.
//   warps 0-7   two warpgroups, 64 rows of weights each: wgmma.m64nNk16, both operands in shared memory
//   warp 8      fills a ring of stages of 64 elements of K with the tensor copy engine
#pragma once
#include "common.cuh"
#include "stage_ring.cuh"
#include "tensor_map.cuh"
#include "wgmma.cuh"

namespace fkc {

namespace grouped {

constexpr int kRows = 128, kDeep = 64, kThreads = 384, kBarriers = 1024, kSharedMax = 224 << 10, kStagesMax = 8;
constexpr int kBytesWeight = kRows * kDeep * 2;
constexpr int kWidth = 16;                                         // widths are multiples of it
constexpr int step_of(int most) { return most > 64 ? 32 : 16; }  // so high is a box of x
constexpr int stage_bytes(int most) { return kBytesWeight + most * kDeep * 2; }
constexpr int stages_of(int most) { return std::min(kStagesMax, (kSharedMax - 1024 - kBarriers) / stage_bytes(most)); }
constexpr int shared_bytes(int most) { return 1024 + kBarriers + stages_of(most) * stage_bytes(most); }  // 1024: alignment

template <class T> struct Arguments {
  T* out;                  // [rows, n]
  const int32_t* offsets;  // [segments + 1]
  int segments, experts;   // segment s is of expert s % experts; at most twice as many as these
  int first;               // the segment to begin with
  int n, k;
};

// Why so many are not taken; null if they are: tiles, and the rows of all weights, are counted in 32 bits. hidden: rows of gate or of up.
inline const char* refusal(int64_t assignments, int64_t experts, int64_t channels, int64_t hidden) {
  constexpr int64_t kFar = int64_t{1} << 30, kLeastRows = 64;  // of x in a tile, where there are that many
  const int64_t wide = std::max(channels, hidden);
  if (assignments >= kFar) return "assignments: fewer than 2^30";
  if (experts >= kFar || wide >= kFar || 2 * experts * wide >= kFar) return "experts times features: fewer than 2^29";
  if ((assignments / kLeastRows + 2 * experts) * cdiv(wide, kRows / 2) >= kFar) return "assignments times features: fewer";
  return nullptr;
}

// A block's place among the blocks and among those of its cluster.
template <int kPair> __device__ int pair_of_block() { return int(blockIdx.x) / kPair; }
template <int kPair> __device__ int pairs() { return int(gridDim.x) / kPair; }
template <int kPair> __device__ int which_of_pair() { return int(blockIdx.x) % kPair; }

// Goes through the tiles of a block.
template <int kMost, int kPair = 1> struct Tiles {
  const int32_t* offsets;
  int segments, first, columns;  // tiles of n, kPair at once
  int turn = -1, segment = 0, begin = 0, end = 0, high = 0, before = 0, row = 0, rows = 0, column = 0;
  __device__ bool find(int tile) {
    while (tile >= before + high * columns) {
      before += high * columns;
      if (++turn == segments) return false;
      segment = first + turn < segments ? first + turn : first + turn - segments;
      begin = read_early(offsets + segment), end = read_early(offsets + segment + 1), high = (end - begin + kMost - 1) / kMost;
    }
    const int at = tile - before, each = (end - begin + high - 1) / high, upper = at % high * each;
    row = begin + upper, rows = min(each, end - row), column = at / high * kPair + which_of_pair<kPair>();
    return true;
  }
};

template <int kMost, int kPair = 1> struct Ring : StageRing<stages_of(kMost), kBarriers, stage_bytes(kMost)> {
  static constexpr int kStep = step_of(kMost);
  // By one thread.
  __device__ void init() const {
    for (int i = 0; i < Ring::kStages; ++i) barrier_init(this->base + i * 8, 1), barrier_init(this->empty(i), 8 * kPair);
  }
  // By every warp that multiplies, to all who fill it.
  __device__ void done_with(int of) const {
    const int lane = threadIdx.x % 32;
    if constexpr (kPair == 1) {
      if (lane == 0) barrier_arrive(this->empty(of));
    } else if (lane < kPair) {
      barrier_arrive_unordered(in_block(this->empty(of), lane));
    }
  }
};

// By one thread. The first turn of the ring is special: its weights come before x exists.
template <class T, bool kGated, int kMost, int kPair = 1> struct Filler {
  static constexpr int kOut = kGated ? kRows / 2 : kRows, kStep = Ring<kMost>::kStep, kBox = kStep * kDeep * 2;
  // Stages that are filled one right after the other, where there are enough: they are neighbours in memory.
  static constexpr int kTogether = Ring<kMost>::kStages >= 8 ? 4 : 1;
  static_assert(Ring<kMost>::kStages % kTogether == 0);
  const CUtensorMap &x, &weight;
  const Arguments<T>& a;
  Ring<kMost, kPair> ring;
  Tiles<kMost, kPair> tile;
  int at = pair_of_block<kPair>(), k = 0;
  bool more = tile.find(at);

  __device__ void next() {
    ring.next();
    if ((k += kDeep) < a.k) return;
    k = 0, more = tile.find(at += pairs<kPair>());
  }
  __device__ int boxes() const { return (tile.rows + kStep - 1) / kStep; }
  __device__ void fetch_weight() {
    const int expert = tile.segment < a.experts ? tile.segment : tile.segment - a.experts;
    const int first = expert * (kGated ? 2 * a.n : a.n) + tile.column * kOut;
    barrier_expect(ring.full(), kBytesWeight + boxes() * kBox);
    if constexpr (kGated) copy_box_4d(ring.at(), weight, k, 0, 0, first / 8, ring.full());
    else copy_box_2d(ring.at(), weight, k, first, ring.full());
  }
  __device__ void fetch_x() {
    for (int b = which_of_pair<kPair>(); b < boxes(); b += kPair) {
      const uint32_t to = ring.at() + kBytesWeight + b * kBox;
      if constexpr (kPair == 1) copy_box_2d(to, x, k, tile.row + b * kStep, ring.full());
      else copy_box_2d_to(to, x, k, tile.row + b * kStep, ring.full(), (1 << kPair) - 1);
    }
  }
  __device__ void first_weights() {
    for (Filler f = *this; f.more && f.ring.turn == 0; f.next()) f.fetch_weight();
  }
  // wait(tile) until the rows of a tile of which nothing has been fetched are there.
  template <class Wait> __device__ void rest(Wait wait) {
    const auto fetch = [&] {
      if (k == 0) wait(tile);
      fetch_x();
    };
    for (; more && ring.turn == 0; next()) fetch();
    for (; more; next()) {
      if (ring.stage % kTogether == 0)
        for (int i = 0; i < kTogether; ++i) barrier_wait(ring.empty(ring.stage + i), (ring.turn - 1) & 1);
      fetch_weight();
      fetch();
    }
  }
};

// Of every eight rows of x and sixteen of weights a lane has two and two; turned round, two neighbours of a row of out.
template <class T, bool kGated, int kN, class Tile> __device__ void write(const float (&acc)[kN / 2], const Arguments<T>& a, const Tile& tile) {
  constexpr int kOut = kGated ? kRows / 2 : kRows, kWarp = kOut / 8;  // columns of a warp
  const int lane = threadIdx.x % 32, column = tile.column * kOut + int(threadIdx.x) / 32 * kWarp + lane % 4 * 2;
  T* out = a.out + int64_t(tile.row + lane / 4) * a.n + column;
#pragma unroll
  for (int j = 0; j < kN / 8; ++j) {
    const bool there = j * 8 + lane / 4 < tile.rows;
    const float* v = acc + j * 4;
    if constexpr (kGated) {
      float hidden[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) hidden[i] = v[i] / (1.F + __expf(-v[i])) * v[2 + i];
      const uint32_t two = transposed(pair<T>(hidden[0], hidden[1]));
      if (there && column < a.n) *reinterpret_cast<uint32_t*>(out) = two;  // n is even
    } else {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32_t two = transposed(pair<T>(v[half * 2], v[half * 2 + 1]));
        if (there && column + half * 8 < a.n) *reinterpret_cast<uint32_t*>(out + half * 8) = two;
      }
    }
    out += 8 * int64_t(a.n);
  }
}

// One tile of up to kN rows of x, or the next width that there is.
template <class T, bool kGated, int kN, int kMost, int kPair>
__device__ void multiply_tile(Ring<kMost, kPair>& ring, const Arguments<T>& a, const Tiles<kMost, kPair>& tile) {
  constexpr int kNext = kN < kMost ? kN + kWidth : kMost;
  if constexpr (kN < kMost)
    if (tile.rows > kN) return multiply_tile<T, kGated, kNext>(ring, a, tile);
  const int group = int(threadIdx.x) / 128;
  float acc[kN / 2] = {};  // else the sums of all widths would be alive at once
  int last = -1;
  for (int k = 0; k < a.k; k += kDeep) {
    barrier_wait(ring.full(), ring.turn & 1);
    const uint64_t left = wgmma_operand(ring.at() + group * (kBytesWeight / 2)), right = wgmma_operand(ring.at() + kBytesWeight);
    wgmma_begin(acc);
#pragma unroll
    for (int i = 0; i < kDeep / 16; ++i) wgmma<T, kN>(acc, left + i * 2, right + i * 2, k + i > 0);
    wgmma_commit();
    wgmma_wait<1>();
    if (last >= 0) ring.done_with(last);
    last = ring.stage;
    ring.next();
  }
  wgmma_wait<0>(acc);
  ring.done_with(last);
  write<T, kGated, kN>(acc, a, tile);
}

// Tiles, and so weights, are found before the kernel before this one has ended (read_early()): of two kernels one after the other, the
// second then fetches weights on multiprocessors that are idle at the end of the first.
template <class T, bool kGated, int kMost, int kPair>
__global__ void __launch_bounds__(kThreads, 1) sorted_rows(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap weight, const Arguments<T> a) {
  char* const shared = dynamic_shared();
  constexpr int kOut = kPair * (kGated ? kRows / 2 : kRows);
  Ring<kMost, kPair> ring{(shared_address(shared) + 1023) & ~1023U};
  Tiles<kMost, kPair> tile{a.offsets, a.segments, a.first, (a.n + kOut - 1) / kOut};
  if (threadIdx.x == 0) {
    ring.init();
    fence_barriers();
  }
  __syncthreads();
  if constexpr (kPair > 1) cluster_sync();
  if (threadIdx.x >= 256) {
    fewer_registers<40>();
    if (threadIdx.x == 256) {
      Filler<T, kGated, kMost, kPair> filler{x, weight, a, ring, tile};
      filler.first_weights();
      inputs_then_next();
      filler.rest([](const auto&) {});
    }
  } else {
    more_registers<232>();
    for (int at = pair_of_block<kPair>(); tile.find(at); at += pairs<kPair>()) multiply_tile<T, kGated, kWidth>(ring, a, tile);
  }
  if constexpr (kPair > 1) {
    __syncwarp();
    cluster_sync();  // shared memory and barriers must last while the other block writes to them
  }
}

// Rows of k elements, dense; a box is `high` of them.
inline CUtensorMap map_of(const void* data, int64_t rows, int64_t k, bool bf16, int high) {
  return tensor_map<2>(data, bf16, {uint64_t(k), uint64_t(rows)}, {uint64_t(k) * 2}, {kDeep, uint32_t(high)});
}
// Matrices [2 * hidden, k] of gate rows, then up rows, as [rows / 8, gate or up, 8, k]; hidden is a multiple of 8.
inline CUtensorMap map_of_gated(const void* data, int64_t experts, int64_t hidden, int64_t k, bool bf16) {
  const uint64_t row = uint64_t(k) * 2;
  return tensor_map<4>(data, bf16, {uint64_t(k), 8, 2, uint64_t((2 * experts - 1) * hidden / 8)}, {row, row * uint64_t(hidden), row * 8}, {kDeep, 8, 2, kRows / 16});
}

}  // namespace grouped

}  // namespace fkc
