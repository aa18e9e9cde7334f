// SPDX-License-Identifier: Apache-2.0
// Grouped GEMM of bfloat16 rows with weights of eight or four bits, bound by reading the weights.
// Blocks are persistent and take tiles in turn: some rows of an expert's weights by up to 8 *
// kTiles of its assignments. The tiles are known on the device alone. A stage of the ring has
// kParts boxes of 128 bytes of every row of weights, and the same columns of x. Weights are widened
// to bfloat16 in registers. The order of K in a product is free. So a lane takes neighbouring
// columns of weights as its fragments of mma.m16n8k16, and x is read in the same order.
//   first warps  multiply: 16 rows of one box of a stage each
//   next warps   load x of a box each, round it to eight bits if the op asks for it, and write it in the
//                order of the weights' columns
//   last warp    loads weights with TMA
#pragma once
#include "../parts/cp_async.cuh"
#include "../parts/mma.cuh"
#include "../parts/op.cuh"
#include "../parts/tma.cuh"
#include "quantized_ring.cuh"

namespace fkc {

namespace quantized {

// By the warps which load x. A lane has the same columns of every kStep-th row of a box. It takes
// kBatch rows at a time to hide latency.
template <class W, int kTiles, int kParts> __device__ void bring_x(Ring ring, Walk walk, const Arguments& a, int* sources) {
  constexpr int kChunks = W::kUnit / 8, kRows = 32 / kChunks, kStep = helpers_of(kParts) / kParts * kRows, kLag = lag_of(kTiles, kParts);
  constexpr int kBatch = W::kUnit / 64;
  const int helper = int(threadIdx.x / 32) - kParts * ring.p.groups, part = helper % kParts, lane = threadIdx.x % 32, chunk = lane % kChunks;
  const int row0 = helper / kParts * kRows, of_lane = lane / kChunks;  // row0: of a warp
  const uint32_t x = ring.p.x + part * (ring.p.rows * W::kUnit * 2);
  sources += helper * (kTilesMax * 8);
  Ring done = ring;
  Walk late = walk;
  int ahead = 0;  // stages of x in flight
  while (late.more) {
    if (walk.more) {
      if (walk.chunk == 0) {
        __syncwarp();
#pragma unroll 1
        for (int i = lane; i < walk.rows; i += 32) sources[i] = a.row_ids[walk.begin + i] / a.top_k;
        __syncwarp();
      }
      ring.await_empty();
      const int column = ((walk.chunk * kParts + part) * kChunks + chunk) * 8;
#pragma unroll 4
      for (int row = row0 + of_lane; row < walk.rows; row += kStep)
        cp_async_16(ring.at() + x + place<W>(row, chunk), a.x + int64_t(sources[row]) * a.k + (column < a.k ? column : 0), column < a.k);
      walk.next(), ring.next();
    }
    cp_async_commit();
    if (++ahead < kLag) continue;
    cp_async_wait<kLag - 1>();
#pragma unroll 1
    for (int first = row0; first < late.rows; first += kBatch * kStep) {  // absent rows too: no warp reads them
      uint4 v[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) v[i] = load_shared(done.at() + x + place<W>(first + i * kStep + of_lane, chunk));
#pragma unroll
      for (int i = 0; i < kBatch; ++i) store_shared(done.at() + x + place<W>(first + i * kStep + of_lane, chunk), W::arranged(a.rounds ? rounded(v[i]) : v[i]));
    }
    mbarrier_arrive(done.full());  // every lane for its own stores, so racecheck can follow
    late.next(), done.next();
  }
}

// By one warp: loads weights, and prefetches their scales into L2.
template <class W, int kParts> __device__ void fetch_weights(Ring ring, Walk walk, const Arguments& a, const CUtensorMap& weight) {
  const int lane = threadIdx.x % 32, box = walk.p.x / kParts;
  for (; walk.more; walk.next(), ring.next()) {
    ring.await_empty();
    if (lane == 0) {
      mbarrier_arrive_expect_tx(ring.full(), walk.p.x);
      for (int i = 0; i < kParts; ++i) tma_load_3d(ring.at() + i * box, weight, (walk.chunk * kParts + i) * (kBox / 2), walk.first, walk.expert, ring.full());
    }
    __syncwarp();
    if (walk.chunk == 0) {
      const Scales<W> of{a};
      const char* const from = static_cast<const char*>(a.scale);
      const int64_t end = (of.row(walk.expert, min(walk.first + walk.p.groups * 16, a.n) - 1) + a.scale_columns) * W::kScaleBytes;
#pragma unroll 1
      for (int64_t at = of.row(walk.expert, walk.first) * W::kScaleBytes + lane * 128; at < end; at += 32 * 128) prefetch_l2(from + at);
    }
  }
}

// Multiplies a lane's two rows of a box of weights by its columns of all rows of x.
template <class W, int kTiles, bool kLarge>
__device__ void multiply_box(const uint32_t (&raw)[2][8], uint32_t x, int rows, const typename W::Factors& factors, const typename W::Scale& scale, float (&acc)[kTiles][4]) {
  using T = __nv_bfloat16;
  float of_block[kTiles][4] = {};
#pragma unroll
  for (int i = 0; i < W::kPieces; ++i) {
    uint32_t wide[2][4];
#pragma unroll
    for (int r = 0; r < 2; ++r) W::template widen<kLarge>(raw[r], i, factors, r, wide[r]);
    const uint32_t one[4] = {wide[0][0], wide[1][0], wide[0][1], wide[1][1]}, two[4] = {wide[0][2], wide[1][2], wide[0][3], wide[1][3]};
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      if (j > 0 && j * 8 >= rows) break;
      const uint4 right = load_shared((x ^ i * 16) + j * 8 * W::kUnit * 2);
      float(&sum)[4] = W::kBlocks ? of_block[j] : acc[j];
      mma_m16n8k16<T>(sum, one, right.x, right.y);
      mma_m16n8k16<T>(sum, two, right.z, right.w);
    }
  }
  if constexpr (W::kBlocks)
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) acc[j][i] += scale.of[i / 2][0] * of_block[j][i];
}

// Adds the sums of the parts of K of a group of warps, and writes them by the first of these warps.
// Transposed, a lane has two neighbours of a row.
template <int kTiles, int kParts>
__device__ void write_rows(const float (&acc)[kTiles][4], const float (&bias)[2], const int (&target)[kTiles], float* sums, const Arguments& a, int first, int part, int barrier) {
  using T = __nv_bfloat16;
  const int t = threadIdx.x % 4;
  if (part > 0)
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[(((part - 1) * kTiles + j) * 4 + i) * 32] = acc[j][i];
  named_barrier_sync(barrier, 32 * kParts);
  if (part == 0)
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float v[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          v[i] = acc[j][r * 2 + i];
#pragma unroll
          for (int other = 0; other < kParts - 1; ++other) v[i] += sums[((other * kTiles + j) * 4 + r * 2 + i) * 32];
          v[i] += bias[r];
        }
        const uint32_t two = movmatrix_trans(pack2<T>(v[0], v[1]));
        const int n = first + r * 8 + t * 2;
        if (target[j] >= 0 && n < a.n) *reinterpret_cast<uint32_t*>(a.out + int64_t(target[j]) * a.n + n) = two;  // n is even
      }
}

// By the warps which multiply.
template <class W, int kTiles, int kParts> __device__ void multiply_rows(Ring ring, const Walk& walk, const Arguments& a, float* all_sums) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, part = warp / walk.p.groups, group = warp % walk.p.groups, g = lane / 4, t = lane % 4;
  const int row0 = group * 16 + g, units = (a.k + W::kUnit - 1) / W::kUnit;
  float* const sums = all_sums + group * (kParts - 1) * kTiles * 128 + lane;
  // A lane's 32 bytes of a row of a box of weights, and their columns of x, in pieces of eight.
  const uint32_t box = part * (walk.p.x / kParts) + row0 * kBox, piece = g * 16, x = walk.p.x + part * (walk.p.rows * W::kUnit * 2) + place<W>(g, t * W::kPieces);
  const Scales<W> scales{a};
  Walk now = walk, ahead = walk;
  int64_t scale_at[2] = {};
  typename W::Scale coming{};
  const auto fetch_scales = [&] {
    if (!ahead.more) return;
    if (ahead.chunk == 0)
#pragma unroll
      for (int r = 0; r < 2; ++r) scale_at[r] = scales.row(ahead.expert, min(ahead.first + row0 + r * 8, a.n - 1));
    const int unit = ahead.chunk * kParts + part;
#pragma unroll
    for (int r = 0; r < 2; ++r) scales.load(scale_at[r], unit, t, coming.of[r]);
    ahead.next();
  };
  fetch_scales();
  float acc[kTiles][4], bias[2];
  int target[kTiles];
  for (; now.more; now.next(), ring.next()) {
    const typename W::Scale scale = coming;
    fetch_scales();
    if (now.chunk == 0) {
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        for (float& sum : acc[j]) sum = 0;
        target[j] = part == 0 && j * 8 + g < now.rows ? a.row_ids[now.begin + j * 8 + g] : -1;
      }
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int n = now.first + row0 + r * 8;
        bias[r] = part == 0 && n < a.n && (a.bias.narrow || a.bias.wide) ? a.bias.one(int64_t(now.expert) * a.n + n) : 0.F;
      }
    }
    mbarrier_wait(ring.full(), ring.turn & 1);
    if (now.chunk * kParts + part < units) {
      uint32_t raw[2][8];
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int l = 0; l < 2; ++l) {
          const uint4 v = load_shared(ring.at() + box + r * 8 * kBox + ((t * 32 + l * 16) ^ piece));
          raw[r][l * 4] = v.x, raw[r][l * 4 + 1] = v.y, raw[r][l * 4 + 2] = v.z, raw[r][l * 4 + 3] = v.w;
        }
      if (const typename W::Factors factors(scale); factors.large) multiply_box<W, kTiles, true>(raw, ring.at() + x, now.rows, factors, scale, acc);
      else multiply_box<W, kTiles, false>(raw, ring.at() + x, now.rows, factors, scale, acc);
    }
    __syncwarp();
    if (lane == 0) mbarrier_arrive(ring.empty());
    if (now.chunk + 1 < now.chunks) continue;
    write_rows<kTiles, kParts>(acc, bias, target, sums, a, now.first + group * 16, part, 1 + group);
    named_barrier_sync(1 + group, 32 * kParts);
  }
}

template <class W, int kTiles, int kParts>
__global__ void __launch_bounds__(threads_of(kParts, groups_max(kTiles, kParts)), 1) dequant_grouped_gemm(const __grid_constant__ CUtensorMap weight, const Arguments a, const Plan p) {
  char* const unaligned = dynamic_shared();
  char* const shared = unaligned + (-shared_address(unaligned) & 1023U);
  const Ring ring{p, shared_address(shared)};
  int* const starts = reinterpret_cast<int*>(shared + table_of(kParts));
  int* const before = starts + a.experts + 1;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  constexpr int kHelpers = helpers_of(kParts);
  const int multiplying = kParts * p.groups;
  // The producer thread initialises barriers, as nothing else waits for it here. The others read
  // offsets.
  if (int(threadIdx.x) == 32 * (multiplying + kHelpers)) {
    prefetch_tensor_map(weight);
    for (Ring r = ring; r.turn == 0; r.next()) mbarrier_init(r.full(), 1 + 32 * kHelpers), mbarrier_init(r.empty(), multiplying);
    fence_mbarrier_init();
  }
  wait_for_inputs();
  for (int e = threadIdx.x; e <= a.experts; e += blockDim.x) starts[e] = a.offsets[e];
  __syncthreads();
  if (warp == 0) {
    int sum = 0;
#pragma unroll 1
    for (int first = 0; first <= a.experts; first += 32) {
      const int e = first + lane, own = e < a.experts ? (starts[e + 1] - starts[e] + kTiles * 8 - 1) / (kTiles * 8) : 0;
      int upto = own;  // the sum up to this lane
      for (int i = 1; i < 32; i *= 2) {
        const int other = __shfl_sync(0xffffffffu, upto, lane >= i ? lane - i : lane);
        if (lane >= i) upto += other;
      }
      if (e <= a.experts) before[e] = sum + upto - own;
      sum += __shfl_sync(0xffffffffu, upto, 31);
    }
  }
  __syncthreads();
  const Walk walk(starts, p, a.experts, (a.k + kParts * W::kUnit - 1) / (kParts * W::kUnit));
  if (warp < multiplying) multiply_rows<W, kTiles, kParts>(ring, walk, a, reinterpret_cast<float*>(shared + p.sums));
  else if (warp < multiplying + kHelpers) bring_x<W, kTiles, kParts>(ring, walk, a, reinterpret_cast<int*>(shared + kSources));
  else fetch_weights<W, kParts>(ring, walk, a, weight);
}

}  // namespace quantized

}  // namespace fkc
