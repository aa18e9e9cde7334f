// SPDX-License-Identifier: Apache-2.0
// Grouped GEMM on wgmma: rows of x, sorted by expert, times the matrices of their experts. out = x
// @ weight[e]^T, or gated: silu(x @ gate[e]^T) * (x @ up[e]^T). Blocks are persistent. The tiles
// are known on the device alone, from `offsets`.
// The operands of wgmma are swapped (swap-AB). A tile is 128 rows of weights by up to kMost rows of
// x. Its width follows the number of rows, so little work is wasted. Gated, it has 64 rows of gate
// and 64 of up, in turns of eight, so that a thread has both. The tiles of an expert share its rows
// evenly. Tiles with the same weights follow each other, so memory is read once. An expert may have
// its rows in several segments. Every tile reads rows of x from L2. With kPair = 2, a cluster of
// two blocks has neighbouring tiles, and each block loads half of the rows of x for both (TMA
// multicast).
//   warps 0-7   two warpgroups, 64 rows of weights each: wgmma.m64nNk16, both operands in shared memory
//   warp 8      fills a ring of stages of 64 elements of K with TMA
#pragma once
#include "../parts/mma.cuh"
#include "../parts/op.cuh"
#include "../parts/pipeline.cuh"
#include "../parts/tensor_map.cuh"

namespace fkc {

namespace grouped {

constexpr int kRows = 128, kDeep = 64, kThreads = 384, kBarriers = 1024, kSharedMax = 224 << 10, kStagesMax = 8;
constexpr int kBytesWeight = kRows * kDeep * 2;
constexpr int kWidth = 16;                                         // widths are multiples of it
constexpr int step_of(int most) { return most > 64 ? 32 : 16; }  // rows of a box of x
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

// The reason for a refusal, or null: tiles and rows of all weights are counted in 32 bits. hidden:
// rows of gate or of up.
inline const char* refusal(int64_t assignments, int64_t experts, int64_t channels, int64_t hidden) {
  constexpr int64_t kFar = int64_t{1} << 30, kLeastRows = 64;  // of x in a full tile
  const int64_t wide = std::max(channels, hidden);
  if (assignments >= kFar) return "assignments: fewer than 2^30";
  if (experts >= kFar || wide >= kFar || 2 * experts * wide >= kFar) return "experts times features: fewer than 2^29";
  if ((assignments / kLeastRows + 2 * experts) * cdiv(wide, kRows / 2) >= kFar) return "assignments times features: fewer";
  return nullptr;
}

// The number of a block's cluster, the number of clusters, and the block's rank in its cluster.
template <int kPair> __device__ int pair_of_block() { return int(blockIdx.x) / kPair; }
template <int kPair> __device__ int pairs() { return int(gridDim.x) / kPair; }
template <int kPair> __device__ int which_of_pair() { return int(blockIdx.x) % kPair; }

// The tiles of a block.
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

template <int kMost, int kPair = 1> struct Ring : StageRing<stages_of(kMost), kBarriers, stage_bytes(kMost), kPair> {
  static constexpr int kStep = step_of(kMost);
};

struct NoWait {
  template <class Tile> __device__ void operator()(const Tile&) const {}
};

// The producer's loads, by one thread.
template <class T, bool kGated, int kMost, int kPair = 1, class Wait = NoWait> struct Loads {
  static constexpr int kOut = kGated ? kRows / 2 : kRows, kStep = Ring<kMost>::kStep, kBox = kStep * kDeep * 2;
  // Stages to acquire together, if the ring has enough. They are neighbours in memory.
  static constexpr int kTogether = Ring<kMost>::kStages >= 8 ? 4 : 1;
  static_assert(Ring<kMost>::kStages % kTogether == 0);
  const CUtensorMap &x, &weight;
  const Arguments<T>& a;
  Ring<kMost, kPair> ring;
  Tiles<kMost, kPair> tile;
  Wait wait;  // wait(tile): until the rows of x of a tile are there
  int at = pair_of_block<kPair>(), k = 0;
  bool found = tile.find(at);

  __device__ bool more() const { return found; }
  __device__ void next() {
    ring.next();
    if ((k += kDeep) < a.k) return;
    k = 0, found = tile.find(at += pairs<kPair>());
  }
  __device__ int boxes() const { return (tile.rows + kStep - 1) / kStep; }
  __device__ void load_weight() {
    const int expert = tile.segment < a.experts ? tile.segment : tile.segment - a.experts;
    const int first = expert * (kGated ? 2 * a.n : a.n) + tile.column * kOut;
    mbarrier_arrive_expect_tx(ring.full(), kBytesWeight + boxes() * kBox);
    if constexpr (kGated) tma_load_4d(ring.at(), weight, k, 0, 0, first / 8, ring.full());
    else tma_load_2d(ring.at(), weight, k, first, ring.full());
  }
  __device__ void load_x() {
    if (k == 0) wait(tile);
    for (int b = which_of_pair<kPair>(); b < boxes(); b += kPair) {
      const uint32_t to = ring.at() + kBytesWeight + b * kBox;
      if constexpr (kPair == 1) tma_load_2d(to, x, k, tile.row + b * kStep, ring.full());
      else tma_load_2d_multicast(to, x, k, tile.row + b * kStep, ring.full(), (1 << kPair) - 1);
    }
  }
  __device__ void acquire() const {
    if (ring.stage % kTogether == 0)
      for (int i = 0; i < kTogether; ++i) ring.wait_empty(ring.stage + i);
  }
};

// A lane has two by two of eight rows of x and sixteen of weights. Transposed, it has two
// neighbours of a row of out.
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
      for (int i = 0; i < 2; ++i) hidden[i] = silu(v[i]) * v[2 + i];
      const uint32_t two = movmatrix_trans(pack2<T>(hidden[0], hidden[1]));
      if (there && column < a.n) *reinterpret_cast<uint32_t*>(out) = two;  // n is even
    } else {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32_t two = movmatrix_trans(pack2<T>(v[half * 2], v[half * 2 + 1]));
        if (there && column + half * 8 < a.n) *reinterpret_cast<uint32_t*>(out + half * 8) = two;
      }
    }
    out += 8 * int64_t(a.n);
  }
}

// A tile of up to kN rows of x, or of the next width.
template <class T, bool kGated, int kN, int kMost, int kPair>
__device__ void multiply_tile(Ring<kMost, kPair>& ring, const Arguments<T>& a, const Tiles<kMost, kPair>& tile) {
  constexpr int kNext = kN < kMost ? kN + kWidth : kMost;
  if constexpr (kN < kMost)
    if (tile.rows > kN) return multiply_tile<T, kGated, kNext>(ring, a, tile);
  const int group = int(threadIdx.x) / 128;
  float acc[kN / 2] = {};  // inside, or the sums of all widths would be alive at once
  wgmma_mainloop<T, kN, kDeep / 16, kDeep>(acc, ring, a.k, [&](uint32_t at) { return at + group * (kBytesWeight / 2); }, [](uint32_t at) { return at + kBytesWeight; });
  write<T, kGated, kN>(acc, a, tile);
}

// The kernel finds tiles, and so weights, before the previous kernel has ended (read_early()). So
// the second of two such kernels loads weights on multiprocessors which are idle at the end of the
// first.
template <class T, bool kGated, int kMost, int kPair>
__global__ void __launch_bounds__(kThreads, 1) grouped_gemm(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap weight, const Arguments<T> a) {
  char* const shared = dynamic_shared();
  constexpr int kOut = kPair * (kGated ? kRows / 2 : kRows);
  Ring<kMost, kPair> ring{(shared_address(shared) + 1023) & ~1023U};
  Tiles<kMost, kPair> tile{a.offsets, a.segments, a.first, (a.n + kOut - 1) / kOut};
  if (threadIdx.x == 0) {
    ring.init(8);
    fence_mbarrier_init();
  }
  __syncthreads();
  if constexpr (kPair > 1) cluster_sync();
  if (threadIdx.x >= 256) {
    warpgroup_reg_dealloc<40>();
    if (threadIdx.x == 256) {
      Loads<T, kGated, kMost, kPair> loads{x, weight, a, ring, tile, {}};
      load_first_weights(loads);
      inputs_then_next();
      load_rest(loads);
    }
  } else {
    warpgroup_reg_alloc<232>();
    for (int at = pair_of_block<kPair>(); tile.find(at); at += pairs<kPair>()) multiply_tile<T, kGated, kWidth>(ring, a, tile);
  }
  if constexpr (kPair > 1) {
    __syncwarp();
    cluster_sync();  // shared memory must last while the other block writes to it
  }
}

// Dense rows of k elements. A box is `high` of them.
inline CUtensorMap map_of(const void* data, int64_t rows, int64_t k, bool bf16, int high) {
  return tensor_map<2>(data, bf16, {uint64_t(k), uint64_t(rows)}, {uint64_t(k) * 2}, {kDeep, uint32_t(high)});
}
// Matrices [2 * hidden, k] with rows of gate, then of up, as [rows / 8, gate or up, 8, k]. hidden
// is a multiple of 8.
inline CUtensorMap map_of_gated(const void* data, int64_t experts, int64_t hidden, int64_t k, bool bf16) {
  const uint64_t row = uint64_t(k) * 2;
  return tensor_map<4>(data, bf16, {uint64_t(k), 8, 2, uint64_t((2 * experts - 1) * hidden / 8)}, {row, row * uint64_t(hidden), row * 8}, {kDeep, 8, 2, kRows / 16});
}

}  // namespace grouped

}  // namespace fkc
