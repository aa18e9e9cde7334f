// SPDX-License-Identifier: Apache-2.0
// Products of few rows of x with matrices which are read once (linear, gated MLPs, mixtures of
// experts), bound by reading the weights. Blocks are persistent. TMA streams 16 rows of weights at
// a time through a ring in shared memory, and x stays in shared memory. If weights do not depend on
// routing, the ring fills before the previous kernel has ended, so small kernels between two
// products cost little. If x is large, a cluster of blocks shares K. Each block keeps its part of
// x. One of them in turn adds the parts of a tile of out, always in the same order.
//   warps 0-7   multiply with mma.m16n8k16: the weights are the matrix of 16 rows, and warps take steps
//               of K in turn
//   warp 8      fills the ring
//   the others  two for every eight rows of x: one adds the sums of the warps, one the sums of the
//               blocks of the cluster, and writes out
#pragma once
#include "../parts/cluster.cuh"
#include "../parts/mma.cuh"
#include "../parts/op.cuh"
#include "../parts/tma.cuh"
#include "streamed_gemv_layout.cuh"

namespace fkc {

namespace gemv {

// By one warp.
__device__ inline void fill(Table& table, const int32_t* ids, const float* scales, int tokens, int top_k) {
  const int lane = threadIdx.x % 32, count = tokens * top_k;
  for (int i = lane; i < kAssignmentsMax * kTokensMax; i += 32) table.row[i / kTokensMax][i % kTokensMax] = -1;
  const int id = lane < count ? ids[lane] : 0x7fffffff;
  const unsigned same = __match_any_sync(0xffffffffu, id);
  const bool first = lane < count && __ffs(int(same)) - 1 == lane;
  int rank = 0;
  for (int i = 0; i < count; ++i) {
    const int other = __shfl_sync(0xffffffffu, id, i);
    rank += __shfl_sync(0xffffffffu, int(first), i) && other < id;
  }
  if (first) table.expert[rank] = id;
  const int distinct = __popc(__ballot_sync(0xffffffffu, first));
  if (lane == 0) table.count = distinct;
  __syncwarp();
  if (lane < count) table.row[rank][lane / top_k] = int8_t(lane), table.scale[rank][lane / top_k] = scales[lane];
}

// A block's view of the kernel. kTiles: eight tokens each.
template <class T, class O, Mode kMode, bool kExperts, int kTiles> struct StreamedGemv {
  static constexpr int kOut = kMode == Mode::gated ? kRows / 2 : kRows;  // columns of out of a tile
  static constexpr int kSums = kTiles * 8 * kColumnPitch;
  const CUtensorMap& weight;
  const Arguments<T, O>& a;
  const Plan& plan;
  char* shared = dynamic_shared();
  uint32_t base = shared_address(shared);
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int rank = blockIdx.x % plan.split, cluster = blockIdx.x / plan.split, clusters = gridDim.x / plan.split;
  int k_begin = rank * plan.slice, k_count = max(0, min(plan.slice, a.k - k_begin)), chunks = (k_count + kChunk - 1) / kChunk;
  Table& table = *reinterpret_cast<Table*>(shared + kTable);
  // A work item is a tile of out: of one expert, or of all of them in turn (combined).
  int tiles = 0, turns = 0, items = 0;

  __device__ uint32_t barrier(int which) const { return base + which * 8; }
  // The place of an item's turn in the table of experts.
  __device__ int expert_of(int item, int i) const { return kMode == Mode::combined ? i : item / tiles; }

  // By one thread.
  __device__ void init_barriers() const {
    for (int i = 0; i < plan.stages; ++i) mbarrier_init(barrier(kFull + i), 1), mbarrier_init(barrier(kEmpty + i), kWarps);
    for (int i = 0; i < 2; ++i) mbarrier_init(barrier(kPart + i), 32 * kWarps), mbarrier_init(barrier(kPartFree + i), 32 * kTiles);
    for (int i = 0; i < kXMax; ++i) mbarrier_init(barrier(kX + i), 1);
    for (int i = 0; i < kTiles; ++i) mbarrier_init(barrier(kGather + i), 1);
    for (int r = 0; r < plan.split; ++r) mbarrier_init(barrier(kGatherFree + r), kTiles);
    *reinterpret_cast<uint4*>(shared + kZeros) = make_uint4(0, 0, 0, 0);
    fence_mbarrier_init();
  }
  __device__ void count_items() {
    tiles = (a.n + kOut - 1) / kOut;
    const int experts = kExperts ? table.count : 1;
    turns = kMode == Mode::combined ? experts : 1, items = kMode == Mode::combined ? tiles : tiles * experts;
  }

  // The producer warp: weights into the ring, x once.
  __device__ void load_x() const {
    if constexpr (!kExperts) grid_dependency_wait();
    const int step = plan.x_chunks * kChunk;
    for (int from = 0, i = 0; from < k_count; from += step, ++i) {
      const int bytes = min(step, k_count - from) * 2;
      if (lane == 0) mbarrier_arrive_expect_tx(barrier(kX + i), a.x_rows * bytes);
      __syncwarp();
      if (lane < a.x_rows) bulk_load(base + plan.x + lane * plan.x_pitch + from * 2, a.x + lane * a.x_step + k_begin + from, bytes, barrier(kX + i));
    }
  }
  // By one lane: chunk `c` of the rows of weights from `row` on.
  __device__ void load_weight(int stage, int row, int c, uint64_t policy) const {
    const int boxes = min(kChunk, k_count - c * kChunk) > kBox ? 2 : 1;
    mbarrier_arrive_expect_tx(barrier(kFull + stage), boxes * kRows * kBox * 2);
    for (int b = 0; b < boxes; ++b) {
      const uint32_t to = base + kRing + stage * kStage + b * kRows * kBox * 2;
      const int k64 = (k_begin + c * kChunk + b * kBox) / 64;
      tma_load_k64(to, weight, row, k64, barrier(kFull + stage), policy);
      if constexpr (kMode == Mode::gated) tma_load_k64(to + kOut * kBox * 2, weight, row + a.n, k64, barrier(kFull + stage), policy);
    }
  }
  __device__ void produce() const {
    const uint64_t policy = l2_evict_first();
    int stage = 0, turn = 0;
    bool loaded = false;
    for (int item = cluster; item < items; item += clusters) {
      for (int i = 0; i < turns; ++i) {
        const int first = kExperts ? table.expert[expert_of(item, i)] * (kMode == Mode::gated ? 2 * a.n : a.n) : 0;
        const int row = first + item % tiles * kOut;
        for (int c = 0; c < chunks; ++c) {
          if (turn > 0) {
            if (!loaded) load_x(), loaded = true;
            mbarrier_wait(barrier(kEmpty + stage), (turn - 1) & 1);
          }
          if (lane == 0) load_weight(stage, row, c, policy);
          if (++stage == plan.stages) stage = 0, ++turn;
        }
      }
    }
    if (!loaded) load_x();
  }

  // The places in which a warp's lanes find fragments for ldmatrix.
  struct Fragments {
    // This lane's 16 bytes of two neighbouring 16 x 16 tiles of weights, in the 128-byte swizzle,
    // and of 8 x 32 elements of x.
    uint32_t a_at[2], b_at[kTiles], b_step[kTiles];
  };
  __device__ void point_at_weights(Fragments& f) const {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int row = lane % 16, box = row / kOut;
      f.a_at[j] = base + kRing + box * (kOut * kBox * 2) + warp / 2 * (kOut * 128) + row % kOut * 128 + ((warp % 2 * 4 + j * 2 + lane / 16) ^ (lane % 8)) * 16;
    }
  }
  // The rows of x of the columns of this lane.
  __device__ void point_at_x(Fragments& f, int expert) const {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      const int token = t * 8 + lane % 8, row = kMode == Mode::combined ? table.row[expert][token] : token;
      const bool there = token < a.tokens && row >= 0;
      f.b_at[t] = there ? base + plan.x + row * plan.x_pitch + lane / 8 * 16 : base + kZeros;
      f.b_step[t] = there ? 1 : 0;
    }
  }
  __device__ void multiply_step(float (&acc)[kTiles][4], const Fragments& f, int stage, int c, int i) const {
    uint32_t one[4], two[4];
    ldmatrix(one, f.a_at[0] + stage * kStage + i * (kRows * kBox * 2));
    ldmatrix(two, f.a_at[1] + stage * kStage + i * (kRows * kBox * 2));
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      uint32_t b[4];
      ldmatrix(b, f.b_at[t] + f.b_step[t] * (c * kChunk + (i * kWarps + warp) * 32) * 2);
      mma_m16n8k16<T>(acc[t], one, b[0], b[1]);
      mma_m16n8k16<T>(acc[t], two, b[2], b[3]);
    }
  }
  // Adds an expert's results, times their scales, to the totals of its tokens.
  __device__ void add_expert(float (&total)[kTiles][4], float (&acc)[kTiles][4], int e) const {
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int token = t * 8 + lane % 4 * 2 + j % 2;
        if (table.row[e][token] >= 0) total[t][j] += table.scale[e][token] * acc[t][j];
        acc[t][j] = 0;
      }
  }
  // The warps which multiply.
  __device__ void multiply() const {
    Fragments f;
    point_at_weights(f);
    if constexpr (kMode != Mode::combined) point_at_x(f, 0);
    int stage = 0, turn = 0, done = 0;
    bool fresh = true;
    for (int item = cluster; item < items; item += clusters, ++done) {
      float acc[kTiles][4] = {}, total[kTiles][4] = {};
      for (int e = 0; e < turns; ++e) {
        if constexpr (kMode == Mode::combined) point_at_x(f, e);
        for (int c = 0; c < chunks; ++c) {
          const int pairs = min(kChunk, k_count - c * kChunk) / 32;
          mbarrier_wait(barrier(kFull + stage), turn & 1);
          if (fresh) mbarrier_wait(barrier(kX + c / plan.x_chunks), 0);
          if (pairs == 2 * kWarps) {
            multiply_step(acc, f, stage, c, 0);
            multiply_step(acc, f, stage, c, 1);
          } else {
            if (warp < pairs) multiply_step(acc, f, stage, c, 0);
            if (warp + kWarps < pairs) multiply_step(acc, f, stage, c, 1);
          }
          __syncwarp();
          if (lane == 0) mbarrier_arrive(barrier(kEmpty + stage));
          if (++stage == plan.stages) stage = 0, ++turn;
        }
        fresh = false;
        if constexpr (kMode == Mode::combined) add_expert(total, acc, e);
      }
      const int set = done % kParts, use = done / kParts;
      if (use > 0) mbarrier_wait(barrier(kPartFree + set), (use - 1) & 1);
      float* sums = reinterpret_cast<float*>(shared + plan.part) + (set * kWarps + warp) * kSums;
#pragma unroll
      for (int t = 0; t < kTiles; ++t)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          sums[(t * 8 + lane % 4 * 2 + j % 2) * kColumnPitch + lane / 4 + j / 2 * 8] = kMode == Mode::combined ? total[t][j] : acc[t][j];
      mbarrier_arrive(barrier(kPart + set));  // every lane for its own sums
    }
  }

  // Four columns of out of a token, by each lane.
  __device__ void write(int item, int token, float4 sum) const {
    float values[4] = {sum.x, sum.y, sum.z, sum.w};
    if constexpr (kMode == Mode::gated) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float up = __shfl_xor_sync(kAllLanes, values[j], 2);
        values[j] = silu(values[j]) * up;
      }
      if (lane % 4 >= 2) return;
    }
    if (token >= a.tokens) return;
    const int row = kExperts && kMode == Mode::gated ? table.row[item / tiles][token] : token;
    if (row < 0) return;
    const int column = item % tiles * kOut + lane % 4 * 4;
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (column + j < a.n) a.out[int64_t(row) * a.n + column + j] = from_float<O>(values[j] + (a.bias ? to_float(a.bias[column + j]) : 0.F));
  }
  // The warps which add. Half of them add the sums of the warps which multiply, the others add the
  // sums of the blocks of the cluster.
  __device__ void reduce() const {
    const int part = (warp - kWarps - 1) % kTiles, token = part * 8 + lane / 4, mine = token * kColumnPitch + lane % 4 * 4;
    const bool last = warp > kWarps + kTiles;
    const auto add = [](float4& to, const float4 v) { to.x += v.x, to.y += v.y, to.z += v.z, to.w += v.w; };
    int done = 0;
    for (int item = cluster; item < items; item += clusters, ++done) {
      const int owner = done % plan.split, round = done / plan.split;
      float4 total = make_float4(0, 0, 0, 0);
      if (!last) {
        const int set = done % kParts, use = done / kParts;
        mbarrier_wait(barrier(kPart + set), use & 1);
        const float* sums = reinterpret_cast<const float*>(shared + plan.part) + set * kWarps * kSums + mine;
#pragma unroll
        for (int w = 0; w < kWarps; ++w) add(total, *reinterpret_cast<const float4*>(sums + w * kSums));
        mbarrier_arrive(barrier(kPartFree + set));
        if (plan.split == 1) {
          write(item, token, total);
        } else {
          if (round > 0) mbarrier_wait(barrier(kGatherFree + owner), (round - 1) & 1);
          dsmem_store_async(map_shared_rank(base + plan.gather + (rank * kSums + mine) * 4, owner), total, map_shared_rank(barrier(kGather + part), owner));
        }
      } else if (plan.split > 1 && owner == rank) {
        if (lane == 0) mbarrier_arrive_expect_tx(barrier(kGather + part), plan.split * 32 * 16);
        mbarrier_wait(barrier(kGather + part), round & 1);
        for (int r = 0; r < plan.split; ++r) add(total, *reinterpret_cast<const float4*>(shared + plan.gather + (r * kSums + mine) * 4));
        __syncwarp();
        if (lane < plan.split) mbarrier_arrive_remote(map_shared_rank(barrier(kGatherFree + owner), lane));
        write(item, token, total);
      }
    }
  }
};

template <class T, class O, Mode kMode, bool kExperts, int kTiles>
__global__ void __launch_bounds__(32 * (kWarps + 1 + 2 * kTiles), 1) streamed_gemv(const __grid_constant__ CUtensorMap weight, const Arguments<T, O> a, const Plan plan) {
  StreamedGemv<T, O, kMode, kExperts, kTiles> block{weight, a, plan};
  launch_dependents();
  if (threadIdx.x == 0) block.init_barriers();
  if constexpr (kExperts) {
    grid_dependency_wait();
    if (block.warp == 0) fill(block.table, a.ids, a.scales, a.tokens, a.top_k);
  }
  __syncthreads();
  if (plan.split > 1) cluster_sync();
  block.count_items();
  if (block.warp == kWarps) block.produce();
  else if (block.warp < kWarps) block.multiply();
  else block.reduce();
  if (plan.split > 1) {  // shared memory must last while other blocks write to it
    __syncwarp();
    cluster_sync();
  }
}

}  // namespace gemv

}  // namespace fkc
