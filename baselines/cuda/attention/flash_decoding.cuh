// SPDX-License-Identifier: Apache-2.0
// paged_attention for few query rows (decode), after Flash-Decoding. The step is bound by reading the
// cache once. Blocks of a cluster share a context, and merge their results through distributed shared
// memory. Keys are the 16 rows of mma.m16n8k16 and queries its eight columns, so a group of query
// heads with one key head wastes little. Each warp has a ring of its own, with tiles of 16 keys and
// values. Warps meet at the end of the context only.
#pragma once
#include "../parts/cluster.cuh"
#include "../parts/cp_async.cuh"
#include "../parts/mma.cuh"
#include "../parts/op.cuh"
#include "../parts/softmax.cuh"
#include "flash_decoding_load.cuh"

namespace fkc {

// kN: eight query rows each; rows of a request are (token, head of the group). kFresh: one token per
// request, which this kernel rotates and appends to the cache.
template <class T, int D, int kN, bool kFresh> struct FlashDecoding {
  using Tile = decode::Tile<D>;
  using Share = decode::Share;
  static constexpr int kWarps = decode::kWarps, kStages = decode::kStages, kKeys = decode::kKeys,
                       kSplitsMax = decode::kSplitsMax, kThreads = 32 * kWarps, kColumns = 8 * kN;
  static constexpr int kRing = kWarps * kStages * 2 * Tile::kBytes;
  // At the end, in place of the ring: sums of the warps, and the block's own.
  static constexpr int kSums = kWarps * kColumns * (D + 2) * 4, kOwn = kColumns * (D + 2) * 4;
  static constexpr int kBytes = kRing > kSums + kOwn ? kRing : kSums + kOwn;

  // The state of a lane's rows: columns lane % 4 * 2 and the next one of every eight.
  struct State {
    float acc[kN][D / 16][4] = {}, most[kN][2], sum[kN][2];
    int last_seen[kN][2];  // the position of the last visible key
    __device__ State(const AttentionParams& p, const Share& share) {
      const int lane = threadIdx.x % 32;
#pragma unroll
      for (int t = 0; t < kN; ++t)
#pragma unroll
        for (int j = 0; j < 2; ++j)
          last_seen[t][j] = p.causal ? share.length - share.count +
                                           (t * 8 + lane % 4 * 2 + j) / p.group
                                     : share.length - 1;
#pragma unroll
      for (int t = 0; t < kN; ++t)
#pragma unroll
        for (int j = 0; j < 2; ++j) most[t][j] = -INFINITY, sum[t][j] = 0;
    }
  };

  // Scores of a tile of keys. Even and odd steps have sums of their own, so half as many products wait
  // for each other.
  static __device__ void multiply_keys(float (&s)[kN][4], uint32_t keys,
                                       const uint32_t (&query)[kN][D / 16][2]) {
    const int lane = threadIdx.x % 32;
    float odd[kN][4] = {};
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
      uint32_t a[4];
      ldmatrix(a, Tile::at(keys, lane % 16, k * 2 + lane / 16));
#pragma unroll
      for (int t = 0; t < kN; ++t)
        mma_m16n8k16<T>(k % 2 ? odd[t] : s[t], a, query[t][k][0], query[t][k][1]);
    }
#pragma unroll
    for (int t = 0; t < kN; ++t)
#pragma unroll
      for (int j = 0; j < 4; ++j) s[t][j] += odd[t][j];
  }

  // Online softmax: scores to weights, as the right operand of the product with values.
  static __device__ void online_softmax(float (&s)[kN][4], uint32_t (&weights)[kN][2], State& state,
                                        const AttentionParams& p, int tile) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int t = 0; t < kN; ++t) {
      float shrink[2];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float next_most = state.most[t][j];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int key = tile * kKeys + lane / 4 + 8 * h;
          float v = s[t][2 * h + j] * p.scale;
          if (p.softcap > 0) v = p.softcap * tanhf(v / p.softcap);
          const bool seen = key <= state.last_seen[t][j] &&
                            (p.window == 0 || key > state.last_seen[t][j] - p.window);
          s[t][2 * h + j] = seen ? v * kLog2e : -INFINITY;
          next_most = fmaxf(next_most, s[t][2 * h + j]);
        }
        next_most = column_max(next_most);
        const float safe = finite_max(next_most);
        shrink[j] = exp2_approx(state.most[t][j] - safe);
        state.most[t][j] = next_most;
        state.sum[t][j] *= shrink[j];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          s[t][2 * h + j] = exp2_approx(s[t][2 * h + j] - safe);
          state.sum[t][j] += s[t][2 * h + j];
        }
      }
#pragma unroll
      for (int d = 0; d < D / 16; ++d)
#pragma unroll
        for (int j = 0; j < 4; ++j) state.acc[t][d][j] *= shrink[j & 1];
#pragma unroll
      for (int h = 0; h < 2; ++h)
        weights[t][h] = movmatrix_trans(pack2<T>(s[t][2 * h], s[t][2 * h + 1]));
    }
  }

  static __device__ void add_values(State& state, uint32_t values,
                                    const uint32_t (&weights)[kN][2]) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
      uint32_t a[4];
      ldmatrix_trans(a, Tile::at(values, lane % 8 + lane / 16 * 8, d * 2 + lane / 8 % 2));
#pragma unroll
      for (int t = 0; t < kN; ++t)
        mma_m16n8k16<T>(state.acc[t][d], a, weights[t][0], weights[t][1]);
    }
  }

  // Sums in shared memory: of warps [warp][column][D], their maxima and sums [warp][column][2], and the
  // same of the block.
  struct Merge {
    float *sums, *ends, *own, *own_ends;
    __device__ explicit Merge(char* shared)
        : sums(reinterpret_cast<float*>(shared)),
          ends(sums + kWarps * kColumns * D),
          own(ends + kWarps * kColumns * 2),
          own_ends(own + kColumns * D) {}
  };
  static __device__ void store_warp(const Merge& merge, State& state) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int t = 0; t < kN; ++t)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int column = warp * kColumns + t * 8 + lane % 4 * 2 + j;
        state.sum[t][j] = column_sum(state.sum[t][j]);
#pragma unroll
        for (int d = 0; d < D / 16; ++d)
#pragma unroll
          for (int h = 0; h < 2; ++h)
            merge.sums[column * D + d * 16 + h * 8 + lane / 4] = state.acc[t][d][2 * h + j];
        if (lane < 4)
          merge.ends[column * 2] = state.most[t][j], merge.ends[column * 2 + 1] = state.sum[t][j];
      }
  }
  // The block's result to out, or to its own sums if other blocks share the context.
  static __device__ void merge_warps(const Merge& merge, const AttentionParams& p,
                                     const Share& share) {
    for (int i = threadIdx.x; i < share.rows * D; i += kThreads) {
      const int row = i / D, d = i % D;
      float top = -INFINITY, total = 0, value = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) top = fmaxf(top, merge.ends[(w * kColumns + row) * 2]);
      const float safe = finite_max(top);
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        const float weight = exp2_approx(merge.ends[(w * kColumns + row) * 2] - safe);
        total += weight * merge.ends[(w * kColumns + row) * 2 + 1];
        value += weight * merge.sums[(w * kColumns + row) * D + d];
      }
      if (p.splits == 1) {
        write(p, share, row, d, top, total, value);
      } else {
        merge.own[i] = value;
        if (d == 0) merge.own_ends[row * 2] = top, merge.own_ends[row * 2 + 1] = total;
      }
    }
  }
  // The results of all blocks of the cluster to out; each block writes a part.
  static __device__ void merge_blocks(const Merge& merge, const AttentionParams& p,
                                      const Share& share) {
    for (int i = share.split * kThreads + threadIdx.x; i < share.rows * D;
         i += p.splits * kThreads) {
      const int row = i / D, d = i % D;
      float tops[kSplitsMax], totals[kSplitsMax], values[kSplitsMax];
#pragma unroll
      for (int r = 0; r < kSplitsMax; ++r) {
        if (r >= p.splits) break;
        const uint32_t there = map_shared_rank(shared_address(merge.own_ends + row * 2), r);
        tops[r] = dsmem_load(there);
        totals[r] = dsmem_load(there + 4);
        values[r] = dsmem_load(map_shared_rank(shared_address(merge.own + i), r));
      }
      float top = -INFINITY, total = 0, value = 0;
#pragma unroll
      for (int r = 0; r < kSplitsMax; ++r)
        if (r < p.splits) top = fmaxf(top, tops[r]);
      const float safe = finite_max(top);
#pragma unroll
      for (int r = 0; r < kSplitsMax; ++r)
        if (r < p.splits)
          total += exp2_approx(tops[r] - safe) * totals[r],
              value += exp2_approx(tops[r] - safe) * values[r];
      write(p, share, row, d, top, total, value);
    }
  }
  // One element of out from its merged maximum, sum and value.
  static __device__ void write(const AttentionParams& p, const Share& share, int row, int d,
                               float top, float total, float value) {
    const int head = share.kv_head * p.group + row % p.group;
    if (p.sinks) value *= add_sink(p.sinks[head] * kLog2e, top, total);
    static_cast<T*>(p.out)[(share.start + row / p.group) * p.out_token + head * p.out_head + d] =
        from_float<T>(total > 0 ? value / total : 0.F);
  }

  static __device__ void run(const AttentionParams& p, const FreshToken& fresh) {
    char* const shared = dynamic_shared();
    const uint32_t base = shared_address(shared);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    Share share;
    wait_for_inputs();
    share.read(p);
    if (share.rows == 0) return;
    share.divide(p);
    decode::Loader<T, D> loader{p, share, base, lane, warp};
    const int64_t position = kFresh ? fresh.positions[share.start] : 0;
    if constexpr (kFresh) decode::append_token<T, D>(p, fresh, share, position);
    loader.prologue();
    uint32_t query[kN][D / 16][2];
    decode::load_queries<T, D>(query, p, share);
    if constexpr (kFresh) decode::rotate_queries<T, D>(query, fresh, position);
    State state(p, share);
    int stage = 0;
    for (int tile = share.begin + warp; tile < share.end; tile += kWarps) {
      cp_async_wait<kStages - 2>();
      __syncwarp();
      loader.load_next(stage == 0 ? kStages - 1 : stage - 1);  // the stage of the last round
      const uint32_t keys = loader.stage_at(stage);
      if (++stage == kStages) stage = 0;
      float scores[kN][4] = {};
      uint32_t weights[kN][2];
      multiply_keys(scores, keys, query);
      online_softmax(scores, weights, state, p, tile);
      add_values(state, keys + Tile::kBytes, weights);
    }
    cp_async_wait<0>();
    __syncthreads();
    const Merge merge(shared);
    store_warp(merge, state);
    __syncthreads();
    merge_warps(merge, p, share);
    if (p.splits == 1) return;
    cluster_sync();
    merge_blocks(merge, p, share);
    cluster_sync();  // shared memory must last while other blocks read it
  }
};

template <class T, int D, int kN, bool kFresh>
__global__ void __launch_bounds__(FlashDecoding<T, D, kN, kFresh>::kThreads)
    flash_decode(const AttentionParams p, const FreshToken fresh) {
  FlashDecoding<T, D, kN, kFresh>::run(p, fresh);
}

}  // namespace fkc
