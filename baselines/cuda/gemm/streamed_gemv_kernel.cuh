// SPDX-License-Identifier: Apache-2.0
// Products of few rows of x with matrices that are read once (linear, gated MLPs, mixtures of experts): bound by
// reading the weights. Blocks are persistent and stream 16 weight rows at a time through a ring in shared memory
// that the tensor copy engine fills; x stays in shared memory. Where the weights do not depend on routing, the ring
// starts to fill before the kernel before this one has ended, so small kernels between two products cost little.
// Where x is large, a cluster of blocks shares K: each keeps its part of x, and one of them, in turn, adds the parts
// of a tile of out up, always in the same order.
//   warps 0-7   multiply (mma.m16n8k16, the weights are the matrix of 16 rows); steps of K go round the warps
//   warp 8      fills the ring
//   the others  two for every eight rows of x: one adds up the warps, one the blocks of the cluster, and writes out
#pragma once
#include "../parts/cluster.cuh"
#include "../parts/mma.cuh"
#include "../parts/op.cuh"
#include "../parts/tma.cuh"

namespace fkc {

namespace gemv {

// plain: out = x @ weight^T (+ bias). gated: out = silu(x @ gate^T) * (x @ up^T), weight is gate rows, then up
// rows; a tile is 8 rows of both. combined: out = the sum over the experts of a token of scale * (x @ weight^T).
enum class Mode { plain, gated, combined };

constexpr int kWarps = 8, kRows = 16, kTokensMax = 16, kAssignmentsMax = 32, kStagesMax = 8;
constexpr int kBox = 256, kChunk = 512;  // elements of K of one copy, and of a stage
constexpr int kStage = kRows * kChunk * 2, kSharedMax = 224 << 10;  // bytes
constexpr int kColumnPitch = 20;  // floats per row of x in partial sums: 16, spread over the banks
constexpr int kParts = 2;         // sets of partial sums, so that warps need not wait for each other
constexpr int kXMax = 32;         // pieces of x that are waited for one by one
enum : int { kFull = 0, kEmpty = kStagesMax, kX = 2 * kStagesMax, kPart = kX + kXMax, kPartFree = kPart + 2, kGather = kPartFree + 2, kGatherFree = kGather + 4, kBarriers = kGatherFree + 8 };
constexpr int kZeros = 1008, kTable = 1024, kRing = 4096;  // 16 bytes of zeros for absent rows of x, the routing, the ring
static_assert(kBarriers * 8 <= kZeros);

// Who works for whom, from the chosen experts of up to 16 tokens; in shared memory.
struct Table {
  int count, expert[kAssignmentsMax];  // chosen by anyone, ascending
  int8_t row[kAssignmentsMax][kTokensMax];  // the assignment of a token; -1: none
  float scale[kAssignmentsMax][kTokensMax];
};
static_assert(kTable + sizeof(Table) <= kRing);

// Where things lie in shared memory, in bytes; the host sizes it by the same rules.
struct Plan {
  int split, slice, stages;  // blocks of a cluster, elements of K in each, stages of the ring
  int x_chunks, x_pitch, x, part, gather, bytes;  // x_chunks: of a piece of x
};
// Stages below two: it does not fit.
inline Plan plan_of(int tokens, int x_rows, int k) {
  const int tiles = tokens <= 8 ? 1 : 2;
  Plan p{};
  const int sums = tiles * 8 * kColumnPitch * 4;
  for (p.split = 1;; p.split *= 2) {
    p.slice = int(cdiv(cdiv(k, p.split), kBox) * kBox);
    p.x_pitch = std::min(p.slice, k) * 2 + 16;
    p.x_chunks = int(cdiv(cdiv(p.slice, kChunk), kXMax));
    const int x = int(cdiv(x_rows * p.x_pitch, 128) * 128), gather = p.split > 1 ? p.split * sums : 0;
    p.stages = std::min((kSharedMax - kRing - x - kParts * kWarps * sums - gather) / kStage, kStagesMax);
    p.x = kRing + std::max(p.stages, 0) * kStage;
    p.part = p.x + x;
    p.gather = p.part + kParts * kWarps * sums;
    p.bytes = p.gather + gather;
    if ((x <= (72 << 10) && p.stages >= 4) || p.split == 8) return p;
  }
}

template <class T, class O> struct Arguments {
  const T* x;
  int64_t x_step;
  const O* bias;
  O* out;  // [x_rows or tokens, n]; gated experts: [assignments, n]
  int tokens, x_rows, n, k;
  const int32_t* ids;   // experts: [tokens, top_k]
  const float* scales;  // likewise
  int top_k;
};

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

// kTiles: eight tokens each.
template <class T, class O, Mode kMode, bool kExperts, int kTiles>
__global__ void __launch_bounds__(32 * (kWarps + 1 + 2 * kTiles), 1)
streamed_gemv(const __grid_constant__ CUtensorMap weight, const Arguments<T, O> a, const Plan plan) {
  char* const shared = dynamic_shared();
  const uint32_t base = shared_address(shared);
  const auto barrier = [&](int which) { return base + which * 8; };
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int rank = blockIdx.x % plan.split, cluster = blockIdx.x / plan.split, clusters = gridDim.x / plan.split;
  const int k_begin = rank * plan.slice, k_count = max(0, min(plan.slice, a.k - k_begin)), chunks = (k_count + kChunk - 1) / kChunk;
  constexpr int kOut = kMode == Mode::gated ? kRows / 2 : kRows;  // columns of out of a tile
  constexpr int kSums = kTiles * 8 * kColumnPitch;
  Table& table = *reinterpret_cast<Table*>(shared + kTable);
  launch_dependents();
  if (threadIdx.x == 0) {
    for (int i = 0; i < plan.stages; ++i) mbarrier_init(barrier(kFull + i), 1), mbarrier_init(barrier(kEmpty + i), kWarps);
    for (int i = 0; i < 2; ++i) mbarrier_init(barrier(kPart + i), 32 * kWarps), mbarrier_init(barrier(kPartFree + i), 32 * kTiles);
    for (int i = 0; i < kXMax; ++i) mbarrier_init(barrier(kX + i), 1);
    for (int i = 0; i < kTiles; ++i) mbarrier_init(barrier(kGather + i), 1);
    for (int r = 0; r < plan.split; ++r) mbarrier_init(barrier(kGatherFree + r), kTiles);
    *reinterpret_cast<uint4*>(shared + kZeros) = make_uint4(0, 0, 0, 0);
    fence_mbarrier_init();
  }
  if constexpr (kExperts) {
    grid_dependency_wait();
    if (warp == 0) fill(table, a.ids, a.scales, a.tokens, a.top_k);
  }
  __syncthreads();
  if (plan.split > 1) cluster_sync();

  // A work item is a tile of out: of one expert, or of all of them in turn (combined).
  const int tiles = (a.n + kOut - 1) / kOut, experts = kExperts ? table.count : 1;
  const int turns = kMode == Mode::combined ? experts : 1, items = kMode == Mode::combined ? tiles : tiles * experts;
  const auto expert_of = [&](int item, int i) { return kMode == Mode::combined ? i : item / tiles; };  // its place in the table

  if (warp == kWarps) {  // fills the ring
    const uint64_t policy = l2_evict_first();
    int stage = 0, turn = 0;
    bool fetched = false;
    const auto fetch_x = [&] {
      if constexpr (!kExperts) grid_dependency_wait();
      const int step = plan.x_chunks * kChunk;
      for (int from = 0, i = 0; from < k_count; from += step, ++i) {
        const int bytes = min(step, k_count - from) * 2;
        if (lane == 0) mbarrier_arrive_expect_tx(barrier(kX + i), a.x_rows * bytes);
        __syncwarp();
        if (lane < a.x_rows) bulk_load(base + plan.x + lane * plan.x_pitch + from * 2, a.x + lane * a.x_step + k_begin + from, bytes, barrier(kX + i));
      }
      fetched = true;
    };
    for (int item = cluster; item < items; item += clusters) {
      for (int i = 0; i < turns; ++i) {
        const int first = kExperts ? table.expert[expert_of(item, i)] * (kMode == Mode::gated ? 2 * a.n : a.n) : 0;
        const int row = first + item % tiles * kOut;
        for (int c = 0; c < chunks; ++c) {
          if (turn > 0) {
            if (!fetched) fetch_x();
            mbarrier_wait(barrier(kEmpty + stage), (turn - 1) & 1);
          }
          const int boxes = min(kChunk, k_count - c * kChunk) > kBox ? 2 : 1;
          if (lane == 0) {
            mbarrier_arrive_expect_tx(barrier(kFull + stage), boxes * kRows * kBox * 2);
            for (int b = 0; b < boxes; ++b) {
              const uint32_t to = base + kRing + stage * kStage + b * kRows * kBox * 2;
              const int k64 = (k_begin + c * kChunk + b * kBox) / 64;
              tma_load_k64(to, weight, row, k64, barrier(kFull + stage), policy);
              if constexpr (kMode == Mode::gated) tma_load_k64(to + kOut * kBox * 2, weight, row + a.n, k64, barrier(kFull + stage), policy);
            }
          }
          if (++stage == plan.stages) stage = 0, ++turn;
        }
      }
    }
    if (!fetched) fetch_x();
  } else if (warp < kWarps) {  // multiplies
    // ldmatrix: this lane's 16 bytes of two neighbouring 16 x 16 tiles of weights (128-byte swizzle), and of 8 rows of x times 32.
    uint32_t a_at[2], b_at[kTiles], b_step[kTiles];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int row = lane % 16, box = row / kOut;
      a_at[j] = base + kRing + box * (kOut * kBox * 2) + warp / 2 * (kOut * 128) + row % kOut * 128 + ((warp % 2 * 4 + j * 2 + lane / 16) ^ (lane % 8)) * 16;
    }
    const auto point = [&](int expert) {  // at the rows of x of the columns of this lane
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        const int token = t * 8 + lane % 8, row = kMode == Mode::combined ? table.row[expert][token] : token;
        const bool there = token < a.tokens && row >= 0;
        b_at[t] = there ? base + plan.x + row * plan.x_pitch + lane / 8 * 16 : base + kZeros;
        b_step[t] = there ? 1 : 0;
      }
    };
    if constexpr (kMode != Mode::combined) point(0);
    int stage = 0, turn = 0, done = 0;
    bool fresh = true;
    for (int item = cluster; item < items; item += clusters, ++done) {
      float acc[kTiles][4] = {}, total[kTiles][4] = {};
      for (int e = 0; e < turns; ++e) {
        if constexpr (kMode == Mode::combined) point(e);
        for (int c = 0; c < chunks; ++c) {
          const int pairs = min(kChunk, k_count - c * kChunk) / 32;
          mbarrier_wait(barrier(kFull + stage), turn & 1);
          if (fresh) mbarrier_wait(barrier(kX + c / plan.x_chunks), 0);
          const auto step = [&](int i) {
            uint32_t one[4], two[4];
            ldmatrix(one, a_at[0] + stage * kStage + i * (kRows * kBox * 2));
            ldmatrix(two, a_at[1] + stage * kStage + i * (kRows * kBox * 2));
#pragma unroll
            for (int t = 0; t < kTiles; ++t) {
              uint32_t b[4];
              ldmatrix(b, b_at[t] + b_step[t] * (c * kChunk + (i * kWarps + warp) * 32) * 2);
              mma_m16n8k16<T>(acc[t], one, b[0], b[1]);
              mma_m16n8k16<T>(acc[t], two, b[2], b[3]);
            }
          };
          if (pairs == 2 * kWarps) {
            step(0);
            step(1);
          } else {
            if (warp < pairs) step(0);
            if (warp + kWarps < pairs) step(1);
          }
          __syncwarp();
          if (lane == 0) mbarrier_arrive(barrier(kEmpty + stage));
          if (++stage == plan.stages) stage = 0, ++turn;
        }
        fresh = false;
        if constexpr (kMode == Mode::combined) {
#pragma unroll
          for (int t = 0; t < kTiles; ++t)
#pragma unroll
            for (int j = 0; j < 4; ++j) {
              const int token = t * 8 + lane % 4 * 2 + j % 2;
              if (table.row[e][token] >= 0) total[t][j] += table.scale[e][token] * acc[t][j];
              acc[t][j] = 0;
            }
        }
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
  } else {  // adds up: four columns of one token per lane
    const int part = (warp - kWarps - 1) % kTiles, token = part * 8 + lane / 4, mine = token * kColumnPitch + lane % 4 * 4;
    const bool last = warp > kWarps + kTiles;
    const auto add = [](float4& to, const float4 v) { to.x += v.x, to.y += v.y, to.z += v.z, to.w += v.w; };
    const auto write = [&](int item, float4 sum) {
      float values[4] = {sum.x, sum.y, sum.z, sum.w};
      if constexpr (kMode == Mode::gated) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float up = __shfl_xor_sync(0xffffffffu, values[j], 2);
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
    };
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
          write(item, total);
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
        write(item, total);
      }
    }
  }
  if (plan.split > 1) {  // shared memory must last while others write to it
    __syncwarp();
    cluster_sync();
  }
}
}  // namespace gemv

}  // namespace fkc
