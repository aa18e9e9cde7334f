// SPDX-License-Identifier: Apache-2.0
// paged_attention for few query rows (decode), bound by reading the cache once: the split of a context over
// blocks follows Flash-Decoding, and the blocks of one context are a cluster that merges through shared memory.
// Keys are the 16 rows of mma.m16n8k16 and queries its eight columns, so that a group of query heads that share
// a key head wastes little. Each warp has a ring of its own, of tiles of 16 keys and values; nothing but the
// end of a context synchronises warps.
#pragma once
#include "../parts/cluster.cuh"
#include "../parts/cp_async.cuh"
#include "../parts/mma.cuh"
#include "../parts/op.cuh"
#include "../parts/rope.cuh"
#include "../parts/softmax.cuh"
#include "../parts/swizzle.cuh"
#include "params.cuh"

namespace fkc {

constexpr int kFewWarps = 4, kFewStages = 3, kFewTile = 16;  // keys of a tile
constexpr int kSplitsMax = 16;

// kN: eight query rows each; rows of a request are (token, head of the group). kFresh: one token per request, which
// is rotated and appended to the cache here.
template <class T, int D, int kN, bool kFresh> struct Few {
  static constexpr int kChunks = D / 8, kTileBytes = kFewTile * D * 2, kStage = 2 * kTileBytes, kColumns = 8 * kN;
  static constexpr int kRing = kFewWarps * kFewStages * kStage;
  static constexpr int kSums = kFewWarps * kColumns * (D + 2) * 4, kOwn = kColumns * (D + 2) * 4;  // at the end, in place of the ring
  static constexpr int kBytes = kRing > kSums + kOwn ? kRing : kSums + kOwn;
  // 16-byte chunks are swizzled by row.
  static __device__ uint32_t at(uint32_t base, int row, int chunk) { return swizzled<kChunks>(base, row, chunk); }

  static __device__ void run(const AttentionParams& p, const FreshToken& fresh) {
    char* const shared = dynamic_shared();
    const uint32_t base = shared_address(shared);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int request = blockIdx.x, kv_head = blockIdx.y, split = blockIdx.z;
    wait_for_inputs();
    const int start = p.starts[request], count = p.starts[request + 1] - start, length = p.lengths[request];
    const int rows = count * p.group;
    if (rows == 0) return;
    const int32_t* table = p.tables + int64_t(request) * p.width;

    // Tiles that any row may see; this block's share of them.
    const int first_seen = p.window > 0 ? max(0, length - count - p.window + 1) / kFewTile : 0;
    const int tiles = (length + kFewTile - 1) / kFewTile - first_seen;
    const int begin = first_seen + int(int64_t(tiles) * split / p.splits), end = first_seen + int(int64_t(tiles) * (split + 1) / p.splits);

    // Where a tile lies is asked for one tile ahead of its copy: one page where pages hold whole tiles, else a
    // page for the row of this lane.
    constexpr int kRowsAtOnce = 32 / kChunks;
    const bool whole = p.page_shift >= 4;
    const int chunk = lane % kChunks, first_row = lane / kChunks;
    const T* const k_of = static_cast<const T*>(p.k.data) + kv_head * p.k.head + chunk * 8;
    const T* const v_of = static_cast<const T*>(p.v.data) + kv_head * p.v.head + chunk * 8;
    int page = 0;
    const auto find = [&](int tile) {
      const int position = tile * kFewTile + (whole ? 0 : lane % kFewTile);
      if (tile < end && position < length) page = table[whole ? position >> p.page_shift : position / p.page_size];
    };
    const auto fetch = [&](int tile, int stage) {
      if (tile < end) {
        const uint32_t keys = base + (warp * kFewStages + stage) * kStage;
        const int first = tile * kFewTile;
        if (whole) {
          const int64_t slot = (first & (p.page_size - 1)) + first_row;
          const T* k = k_of + page * p.k.page + slot * p.k.slot;
          const T* v = v_of + page * p.v.page + slot * p.v.slot;
#pragma unroll
          for (int i = 0; i < kFewTile / kRowsAtOnce; ++i) {
            const int row = i * kRowsAtOnce + first_row;
            const bool there = first + row < length;
            cp_async_16(at(keys, row, chunk), k, there);
            cp_async_16(at(keys + kTileBytes, row, chunk), v, there);
            k += kRowsAtOnce * p.k.slot;
            v += kRowsAtOnce * p.v.slot;
          }
        } else {
          for (int i = 0; i < kFewTile / kRowsAtOnce; ++i) {
            const int row = i * kRowsAtOnce + first_row;
            const int64_t page_of = __shfl_sync(0xffffffffu, page, row), slot = (first + row) % p.page_size;
            const bool there = first + row < length;
            cp_async_16(at(keys, row, chunk), k_of + page_of * p.k.page + slot * p.k.slot, there);
            cp_async_16(at(keys + kTileBytes, row, chunk), v_of + page_of * p.v.page + slot * p.v.slot, there);
          }
        }
      }
      cp_async_commit();
    };

    // The warp whose tile has the new token puts it into the cache first.
    const int64_t position = kFresh ? fresh.positions[start] : 0;
    if constexpr (kFresh) {
      const int64_t slot = fresh.slots[start];
      if (split == p.splits - 1 && warp == (end - 1 - begin) % kFewWarps && slot >= 0) {
        const T* token = static_cast<const T*>(fresh.qkv) + start * fresh.token + kv_head * D;
        const auto place = [&](const AttentionCache& cache) {
          return static_cast<T*>(const_cast<void*>(cache.data)) + slot / p.page_size * cache.page + slot % p.page_size * cache.slot + kv_head * cache.head;
        };
        if (lane < D / 16) {
          Vec8<T> a = load8(token + fresh.k + lane * 8), b = load8(token + fresh.k + D / 2 + lane * 8);
          rotate_pairs(a, b, Angles(fresh.table + position * D + lane * 8, D / 2));
          store8(place(p.k) + lane * 8, a);
          store8(place(p.k) + D / 2 + lane * 8, b);
        } else if (lane >= 16 && lane < 16 + D / 8) {
          store8(place(p.v) + (lane - 16) * 8, load8(token + fresh.v + (lane - 16) * 8));
        }
        __threadfence_block();
        __syncwarp();
      }
    }

    int next = begin + warp;  // the tile that is fetched next
    find(next);
#pragma unroll
    for (int s = 0; s < kFewStages - 1; ++s) {
      fetch(next, s);
      next += kFewWarps;
      find(next);
    }

    // Queries as columns: row lane / 4 of every eight, two elements of d.
    uint32_t query[kN][D / 16][2];
#pragma unroll
    for (int t = 0; t < kN; ++t) {
      const int row = min(t * 8 + lane / 4, rows - 1);
      const T* q = static_cast<const T*>(p.q) + (start + row / p.group) * p.q_token + (kv_head * p.group + row % p.group) * p.q_head;
#pragma unroll
      for (int k = 0; k < D / 16; ++k)
#pragma unroll
        for (int h = 0; h < 2; ++h) query[t][k][h] = *reinterpret_cast<const uint32_t*>(q + k * 16 + h * 8 + lane % 4 * 2);
    }
    if constexpr (kFresh) {
#pragma unroll
      for (int k = 0; k < D / 32; ++k)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const float* cosine = fresh.table + position * D + k * 16 + h * 8 + lane % 4 * 2;
          const float2 c = *reinterpret_cast<const float2*>(cosine), s = *reinterpret_cast<const float2*>(cosine + D / 2);
#pragma unroll
          for (int t = 0; t < kN; ++t) rotate_two<T>(query[t][k][h], query[t][k + D / 32][h], c, s);
        }
    }
    int last_seen[kN][2];  // the position of this lane's two columns
#pragma unroll
    for (int t = 0; t < kN; ++t)
#pragma unroll
      for (int j = 0; j < 2; ++j)
        last_seen[t][j] = p.causal ? length - count + (t * 8 + lane % 4 * 2 + j) / p.group : length - 1;

    float acc[kN][D / 16][4] = {}, most[kN][2], sum[kN][2];
#pragma unroll
    for (int t = 0; t < kN; ++t)
#pragma unroll
      for (int j = 0; j < 2; ++j) most[t][j] = -INFINITY, sum[t][j] = 0;

    int stage = 0;
    for (int tile = begin + warp; tile < end; tile += kFewWarps) {
      cp_async_wait<kFewStages - 2>();
      __syncwarp();
      fetch(next, stage == 0 ? kFewStages - 1 : stage - 1);  // into the stage that the last round has used
      next += kFewWarps;
      find(next);
      const uint32_t keys = base + (warp * kFewStages + stage) * kStage, values = keys + kTileBytes;
      if (++stage == kFewStages) stage = 0;

      float s[kN][4] = {}, odd[kN][4] = {};  // two sums, so that half as many products wait for each other
#pragma unroll
      for (int k = 0; k < D / 16; ++k) {
        uint32_t a[4];
        ldmatrix(a, at(keys, lane % 16, k * 2 + lane / 16));
#pragma unroll
        for (int t = 0; t < kN; ++t) mma_m16n8k16<T>(k % 2 ? odd[t] : s[t], a, query[t][k][0], query[t][k][1]);
      }
#pragma unroll
      for (int t = 0; t < kN; ++t)
#pragma unroll
        for (int j = 0; j < 4; ++j) s[t][j] += odd[t][j];
      uint32_t weights[kN][2];
#pragma unroll
      for (int t = 0; t < kN; ++t) {
        float shrink[2];
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          float next_most = most[t][j];
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            const int key = tile * kFewTile + lane / 4 + 8 * h;
            float v = s[t][2 * h + j] * p.scale;
            if (p.softcap > 0) v = p.softcap * tanhf(v / p.softcap);
            const bool seen = key <= last_seen[t][j] && (p.window == 0 || key > last_seen[t][j] - p.window);
            s[t][2 * h + j] = seen ? v * kLog2e : -INFINITY;
            next_most = fmaxf(next_most, s[t][2 * h + j]);
          }
          next_most = column_max(next_most);
          const float safe = finite_max(next_most);
          shrink[j] = exp2_approx(most[t][j] - safe);
          most[t][j] = next_most;
          sum[t][j] *= shrink[j];
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            s[t][2 * h + j] = exp2_approx(s[t][2 * h + j] - safe);
            sum[t][j] += s[t][2 * h + j];
          }
        }
#pragma unroll
        for (int d = 0; d < D / 16; ++d)
#pragma unroll
          for (int j = 0; j < 4; ++j) acc[t][d][j] *= shrink[j & 1];
#pragma unroll
        for (int h = 0; h < 2; ++h) weights[t][h] = movmatrix_trans(pack2<T>(s[t][2 * h], s[t][2 * h + 1]));
      }
#pragma unroll
      for (int d = 0; d < D / 16; ++d) {
        uint32_t a[4];
        ldmatrix_trans(a, at(values, lane % 8 + lane / 16 * 8, d * 2 + lane / 8 % 2));
#pragma unroll
        for (int t = 0; t < kN; ++t) mma_m16n8k16<T>(acc[t][d], a, weights[t][0], weights[t][1]);
      }
    }
    cp_async_wait<0>();

    // The warps' sums [warp][column][D], then maxima and sums [warp][column][2]; merged into this block's own.
    __syncthreads();
    float* sums = reinterpret_cast<float*>(shared);
    float* ends = sums + kFewWarps * kColumns * D;
    float* own = ends + kFewWarps * kColumns * 2;
    float* own_ends = own + kColumns * D;
#pragma unroll
    for (int t = 0; t < kN; ++t)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int column = warp * kColumns + t * 8 + lane % 4 * 2 + j;
        sum[t][j] = column_sum(sum[t][j]);
#pragma unroll
        for (int d = 0; d < D / 16; ++d)
#pragma unroll
          for (int h = 0; h < 2; ++h) sums[column * D + d * 16 + h * 8 + lane / 4] = acc[t][d][2 * h + j];
        if (lane < 4) ends[column * 2] = most[t][j], ends[column * 2 + 1] = sum[t][j];
      }
    __syncthreads();
    for (int i = threadIdx.x; i < rows * D; i += 32 * kFewWarps) {
      const int row = i / D, d = i % D;
      float top = -INFINITY, total = 0, value = 0;
#pragma unroll
      for (int w = 0; w < kFewWarps; ++w) top = fmaxf(top, ends[(w * kColumns + row) * 2]);
      const float safe = finite_max(top);
#pragma unroll
      for (int w = 0; w < kFewWarps; ++w) {
        const float weight = exp2_approx(ends[(w * kColumns + row) * 2] - safe);
        total += weight * ends[(w * kColumns + row) * 2 + 1];
        value += weight * sums[(w * kColumns + row) * D + d];
      }
      if (p.splits == 1) {
        write(p, start, kv_head, row, d, top, total, value);
      } else {
        own[i] = value;
        if (d == 0) own_ends[row * 2] = top, own_ends[row * 2 + 1] = total;
      }
    }
    if (p.splits == 1) return;
    cluster_sync();
    for (int i = split * 32 * kFewWarps + threadIdx.x; i < rows * D; i += p.splits * 32 * kFewWarps) {
      const int row = i / D, d = i % D;
      float tops[kSplitsMax], totals[kSplitsMax], values[kSplitsMax];
#pragma unroll
      for (int r = 0; r < kSplitsMax; ++r) {
        if (r >= p.splits) break;
        const uint32_t there = map_shared_rank(shared_address(own_ends + row * 2), r);
        tops[r] = dsmem_load(there);
        totals[r] = dsmem_load(there + 4);
        values[r] = dsmem_load(map_shared_rank(shared_address(own + i), r));
      }
      float top = -INFINITY, total = 0, value = 0;
#pragma unroll
      for (int r = 0; r < kSplitsMax; ++r)
        if (r < p.splits) top = fmaxf(top, tops[r]);
      const float safe = finite_max(top);
#pragma unroll
      for (int r = 0; r < kSplitsMax; ++r)
        if (r < p.splits) total += exp2_approx(tops[r] - safe) * totals[r], value += exp2_approx(tops[r] - safe) * values[r];
      write(p, start, kv_head, row, d, top, total, value);
    }
    cluster_sync();  // shared memory must last while others read it
  }

  // One element of out from its merged maximum, sum and value.
  static __device__ void write(const AttentionParams& p, int start, int kv_head, int row, int d, float top, float total, float value) {
    const int head = kv_head * p.group + row % p.group;
    if (p.sinks) {
      value *= add_sink(p.sinks[head] * kLog2e, top, total);
    }
    static_cast<T*>(p.out)[(start + row / p.group) * p.out_token + head * p.out_head + d] = from_float<T>(total > 0 ? value / total : 0.F);
  }
};

template <class T, int D, int kN, bool kFresh> __global__ void __launch_bounds__(32 * kFewWarps) flash_decode(const AttentionParams p, const FreshToken fresh) {
  Few<T, D, kN, kFresh>::run(p, fresh);
}

}  // namespace fkc
