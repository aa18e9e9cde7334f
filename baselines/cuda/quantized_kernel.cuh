// SPDX-License-Identifier: Apache-2.0
// Grouped products of bfloat16 rows with weights of eight or four bits: bound by reading the weights. Blocks are persistent and
// take tiles in turn: some rows of an expert's weights by up to 8 * kTiles of its assignments. Which tiles there are is
// known on the device alone. A stage of the ring has kParts boxes of 128 bytes of every row of weights and, beside them, the same
// columns of x; each row of weights is widened to bfloat16 in registers. The order of K in a product is free: a lane's
// fragments of mma.m16n8k16 are columns that lie together in the weights, and x has the same order.
//   first warps  multiply: 16 rows of one box of a stage each; few of them to a multiprocessor would wait for themselves
//   last warp    fetches weights and x with the copy engine
// A kernel before has put x in the order of the weights' columns.
#pragma once
#include "quantized_ring.cuh"
#include "tensor_map.cuh"

namespace fkc {

namespace quantized {

// A warp puts `width` columns of a row of x, which are rounded together where the op asks for it, in the order of the weights'
// columns, with zeros behind the last. The products start meanwhile.
constexpr int kArrangers = 256;
template <class W, bool kRounds>
__global__ void __launch_bounds__(kArrangers) arrange(const __nv_bfloat16* x, __nv_bfloat16* out, int64_t parts, int of_row, int width, int k, int columns) {
  inputs_then_next();
  const int64_t part = (int64_t(blockIdx.x) * kArrangers + threadIdx.x) / 32;
  if (part >= parts) return;
  const int64_t row = part / of_row;
  const int lane = threadIdx.x % 32, begin = int(part % of_row) * width, end = min(begin + width, columns);
  const auto eight = [&](int c) {
    return Pack<__nv_bfloat16>{c < k ? *reinterpret_cast<const uint4*>(x + row * k + c) : uint4{}};
  };
  float top = kLeastTop;
  if constexpr (kRounds) {
    for (int c = begin + lane * 8; c < end; c += 256) {
      const auto v = eight(c);
#pragma unroll
      for (int i = 0; i < 8; ++i) top = fmaxf(top, fabsf(to_float(v.at[i])));
    }
    for (int i = 16; i > 0; i /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, i));
  }
  const Rounding round(top);
  for (int c = begin + lane * 8; c < end; c += 256) {
    auto v = eight(c);
    if constexpr (kRounds)
#pragma unroll
      for (int i = 0; i < 8; ++i) v.at[i] = round(to_float(v.at[i]));
    const int box = c / W::kUnit * W::kUnit;
    *reinterpret_cast<uint4*>(out + row * columns + box + moved<W>((c - box) / 8) * 8) = W::arranged(v.raw);
  }
}

// By one warp: weights; the same columns of the tile's rows of x; and what the weights' scales are in nears.
template <class W, int kTiles, int kParts> __device__ void fetch(Ring ring, Walk walk, const Arguments& a, const CUtensorMap& weight) {
  constexpr int kOfRow = kParts * W::kUnit, kOfLane = (kTiles * 8 + 31) / 32;
  const int lane = threadIdx.x % 32, box = walk.p.x / kParts;
  const int64_t columns = arranged_columns<W>(a.k);
  const auto bring_weights = [&] {
    if (lane == 0) {
      barrier_expect(ring.full(), walk.p.x + walk.rows * kOfRow * 2);
      for (int i = 0; i < kParts; ++i) copy_box_3d(ring.at() + i * box, weight, (walk.chunk * kParts + i) * (kBox / 2), walk.first, walk.expert, ring.full());
    }
    __syncwarp();
    if (walk.chunk == 0) {
      const Scales<W> of{a};
      const char* const from = static_cast<const char*>(a.scale);
      const int64_t end = (of.row(walk.expert, min(walk.first + walk.p.groups * 16, a.n) - 1) + a.scale_columns) * W::kScaleBytes;
#pragma unroll 1
      for (int64_t at = of.row(walk.expert, walk.first) * W::kScaleBytes + lane * 128; at < end; at += 32 * 128) prefetch(from + at);
    }
  };
  int64_t source[kOfLane] = {};
  const auto bring_x = [&](const Walk& of, const Ring& to) {
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      const int row = i * 32 + lane;
      if (row >= of.rows) break;
      if (of.chunk == 0) source[i] = a.row_ids[of.begin + row] / a.top_k * columns;
      copy_bulk(to.at() + of.p.x + row * row_bytes_of<W>(kParts), a.x + source[i] + of.chunk * kOfRow, kOfRow * 2, to.full());
    }
  };
  // Nobody has written to the weights.
  Walk late = walk;
  Ring first = ring;
  for (int i = 0; walk.more && i < walk.p.stages; ++i, walk.next(), ring.next()) bring_weights();
  wait_for_previous();
  for (int i = 0; late.more && i < walk.p.stages; ++i, late.next(), first.next()) bring_x(late, first);
  for (; walk.more; walk.next(), ring.next()) {
    ring.await_empty();
    bring_weights();
    bring_x(walk, ring);
  }
}

// What a lane has of two rows of a box of weights, by as many columns of all rows of x that there are.
template <class W, int kTiles, int kParts, bool kLarge>
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
      const uint4 right = load_shared((x ^ i % 4 * 16) + i / 4 * 64 + j * 8 * row_bytes_of<W>(kParts));
      float(&sum)[4] = W::kBlocks ? of_block[j] : acc[j];
      multiply<T>(sum, one, right.x, right.y);
      multiply<T>(sum, two, right.z, right.w);
    }
  }
  if constexpr (W::kBlocks)
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) acc[j][i] += scale.of[i / 2][0] * of_block[j][i];
}

// By the warps that multiply.
template <class W, int kTiles, int kParts> __device__ void multiply_rows(Ring ring, const Walk& walk, const Arguments& a, float* all_sums) {
  using T = __nv_bfloat16;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, part = warp / walk.p.groups, group = warp % walk.p.groups, g = lane / 4, t = lane % 4;
  const int row0 = group * 16 + g, units = (a.k + W::kUnit - 1) / W::kUnit;
  float* const sums = all_sums + group * (kParts - 1) * kTiles * 128 + lane;
  // A lane's 32 bytes of a row of a box of weights, and their columns of x, in pieces of eight.
  const uint32_t box = part * (walk.p.x / kParts) + row0 * kBox, piece = g * 16;
  const uint32_t x = walk.p.x + g * row_bytes_of<W>(kParts) + part * (W::kUnit * 2) + moved<W>(t * W::kPieces) * 16;
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
    barrier_wait(ring.full(), ring.turn & 1);
    if (now.chunk * kParts + part < units) {
      uint32_t raw[2][8];
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int l = 0; l < 2; ++l) {
          const uint4 v = load_shared(ring.at() + box + r * 8 * kBox + ((t * 32 + l * 16) ^ piece));
          raw[r][l * 4] = v.x, raw[r][l * 4 + 1] = v.y, raw[r][l * 4 + 2] = v.z, raw[r][l * 4 + 3] = v.w;
        }
      if (const typename W::Factors factors(scale); factors.large) multiply_box<W, kTiles, kParts, true>(raw, ring.at() + x, now.rows, factors, scale, acc);
      else multiply_box<W, kTiles, kParts, false>(raw, ring.at() + x, now.rows, factors, scale, acc);
    }
    __syncwarp();
    if (lane == 0) barrier_arrive(ring.empty());
    if (now.chunk + 1 < now.chunks) continue;
    // The parts of K meet; turned round, two neighbours of a row of out.
    if (part > 0)
#pragma unroll
      for (int j = 0; j < kTiles; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[(((part - 1) * kTiles + j) * 4 + i) * 32] = acc[j][i];
    named_sync(1 + group, 32 * kParts);
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
          const uint32_t two = transposed(pair<T>(v[0], v[1]));
          const int n = now.first + group * 16 + r * 8 + t * 2;
          if (target[j] >= 0 && n < a.n) *reinterpret_cast<uint32_t*>(a.out + int64_t(target[j]) * a.n + n) = two;  // n is even
        }
    named_sync(1 + group, 32 * kParts);
  }
}

template <class W, int kTiles, int kParts>
__global__ void __launch_bounds__(threads_of(kParts, groups_max(kTiles, kParts)), 1) grouped_rows(const __grid_constant__ CUtensorMap weight, const Arguments a, const Plan p) {
  char* const unaligned = dynamic_shared();
  char* const shared = unaligned + (-shared_address(unaligned) & 1023U);
  const Ring ring{p, shared_address(shared)};
  int* const starts = reinterpret_cast<int*>(shared + kTable);
  int* const before = starts + a.experts + 1;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int multiplying = kParts * p.groups;
  // Whom nothing else waits for meanwhile; the others are after the offsets.
  if (threadIdx.x == 32 * multiplying) {
    prefetch_map(weight);
    for (Ring r = ring; r.turn == 0; r.next()) barrier_init(r.full(), 1), barrier_init(r.empty(), multiplying);
    fence_barriers();
  }
  let_next_start();
  // arrange() has waited for who wrote what it does not write itself.
  for (int e = threadIdx.x; e <= a.experts; e += blockDim.x) starts[e] = a.offsets[e];
  __syncthreads();
  if (warp == 0) {
    int sum = 0;
#pragma unroll 1
    for (int first = 0; first <= a.experts; first += 32) {
      const int e = first + lane, own = e < a.experts ? (starts[e + 1] - starts[e] + kTiles * 8 - 1) / (kTiles * 8) : 0;
      int upto = own;  // with those of the lanes before
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
  else fetch<W, kTiles, kParts>(ring, walk, a, weight);
}

}  // namespace quantized

}  // namespace fkc
