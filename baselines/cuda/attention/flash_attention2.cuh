// SPDX-License-Identifier: Apache-2.0
// paged_attention for many query rows, after FlashAttention-2: 64 rows per block, 16 per warp, and
// tiles of 64 keys.
#pragma once
#include "../parts/cp_async.cuh"
#include "../parts/mma.cuh"
#include "../parts/op.cuh"
#include "../parts/softmax.cuh"
#include "../parts/swizzle.cuh"
#include "params.cuh"

namespace fkc {

constexpr int kKeys = 64, kWarps = 4, kThreads = 32 * kWarps;

// 64 keys or values of one head in shared memory. Pieces of 16 bytes are swizzled by row.
template <class T, int D> struct Tile {
  static constexpr int kChunks = D / 8;
  static __device__ uint32_t at(uint32_t base, int row, int chunk) { return swizzled<kChunks>(base, row, chunk); }
  static __device__ void fetch(uint32_t base, const AttentionCache& cache, const int32_t* table, int page_size, int64_t head, int first, int end) {
    constexpr int kRowsAtOnce = kThreads / kChunks;
    const int chunk = threadIdx.x % kChunks;
#pragma unroll
    for (int i = 0; i < kKeys / kRowsAtOnce; ++i) {
      const int row = i * kRowsAtOnce + threadIdx.x / kChunks, position = first + row;
      const bool there = position < end;
      const int64_t page = there ? table[position / page_size] : 0;
      const T* from = static_cast<const T*>(cache.data) + page * cache.page + (there ? position % page_size : 0) * cache.slot + head * cache.head;
      cp_async_16(at(base, row, chunk), from + chunk * 8, there);
    }
  }
};

// Online softmax of a tile: masks scores and turns them into weights. A thread has two rows, and
// two of every eight columns.
template <int D>
__device__ void online_softmax(float (&s)[kKeys / 8][4], float (&acc)[D / 8][4], float (&most)[2], float (&sum)[2], const AttentionParams& p,
                               const int (&position)[2], int tile) {
  constexpr int kOwn = kKeys / 8;
  const int lane = threadIdx.x % 32;
  float next[2] = {most[0], most[1]};
#pragma unroll
  for (int n = 0; n < kOwn; ++n)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int key = tile * kKeys + n * 8 + lane % 4 * 2 + (j & 1), h = j >> 1;
      float v = s[n][j] * p.scale;
      if (p.softcap > 0) v = p.softcap * tanhf(v / p.softcap);
      const bool seen = key <= position[h] && (p.window == 0 || key > position[h] - p.window);
      s[n][j] = seen ? v * kLog2e : -INFINITY;
      next[h] = fmaxf(next[h], s[n][j]);
    }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    next[h] = quad_max(next[h]);
    const float shrink = next[h] == -INFINITY ? 1.F : exp2f(most[h] - next[h]);
    most[h] = next[h];
    sum[h] *= shrink;
#pragma unroll
    for (int d = 0; d < D / 8; ++d) acc[d][2 * h] *= shrink, acc[d][2 * h + 1] *= shrink;
  }
#pragma unroll
  for (int n = 0; n < kOwn; ++n)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      s[n][j] = most[j >> 1] == -INFINITY ? 0.F : exp2f(s[n][j] - most[j >> 1]);
      sum[j >> 1] += s[n][j];
    }
}

// The sums of a thread's two rows, divided, to out.
template <class T, int D>
__device__ void write_rows(float (&acc)[D / 8][4], float (&most)[2], float (&sum)[2], const AttentionParams& p, int first_row, int rows, int start, int kv_head) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int h = 0; h < 2; ++h) sum[h] = quad_sum(sum[h]);

#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = first_row + lane / 4 + 8 * h;
    if (row >= rows) continue;
    const int head = kv_head * p.group + row % p.group;
    if (p.sinks) {
      const float shrink = add_sink(p.sinks[head] * kLog2e, most[h], sum[h]);
#pragma unroll
      for (int d = 0; d < D / 8; ++d) acc[d][2 * h] *= shrink, acc[d][2 * h + 1] *= shrink;
    }
    const float inverse = sum[h] > 0 ? 1.F / sum[h] : 0.F;
    T* to = static_cast<T*>(p.out) + (start + row / p.group) * p.out_token + head * p.out_head + lane % 4 * 2;
#pragma unroll
    for (int d = 0; d < D / 8; ++d)
      *reinterpret_cast<uint32_t*>(to + d * 8) = pack2<T>(acc[d][2 * h] * inverse, acc[d][2 * h + 1] * inverse);
  }
}

template <class T, int D> __global__ void __launch_bounds__(kThreads) flash_attention2(const AttentionParams p) {
  char* const shared = dynamic_shared();
  wait_for_inputs();
  constexpr int kTileBytes = kKeys * D * 2, kOwn = kKeys / 8;  // fragments of scores of a warp
  using Tiles = Tile<T, D>;
  const uint32_t base = shared_address(shared);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int request = p.work[blockIdx.x].x, tile_row = p.work[blockIdx.x].y, kv_head = blockIdx.y;
  const int first_row = tile_row + warp * 16;
  const int start = p.starts[request], count = p.starts[request + 1] - start, length = p.lengths[request];
  const int rows = count * p.group;
  if (rows == 0) return;
  const int32_t* table = p.tables + int64_t(request) * p.width;

  // The two rows of this thread in every fragment.
  int position[2];
  const T* q[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = min(first_row + lane / 4 + 8 * h, rows - 1), token = row / p.group;
    position[h] = p.causal ? length - count + token : length - 1;
    q[h] = static_cast<const T*>(p.q) + (start + token) * p.q_token + (kv_head * p.group + row % p.group) * p.q_head;
  }
  uint32_t query[D / 16][4];
#pragma unroll
  for (int k = 0; k < D / 16; ++k)
#pragma unroll
    for (int j = 0; j < 4; ++j) query[k][j] = *reinterpret_cast<const uint32_t*>(q[j & 1] + k * 16 + (j >> 1) * 8 + lane % 4 * 2);

  // The keys which rows of the block see, in whole tiles.
  const int last_row = min(tile_row + kWarps * 16, rows) - 1;
  const int end = p.causal ? length - count + last_row / p.group + 1 : length;
  int from = 0;
  if (p.window > 0) from = max(0, length - count + tile_row / p.group - p.window + 1) / kKeys;
  const int tile_begin = from, tile_end = (end + kKeys - 1) / kKeys;

  float acc[D / 8][4] = {}, most[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
  const auto fetch = [&](int tile, int stage) {
    Tiles::fetch(base + stage * 2 * kTileBytes, p.k, table, p.page_size, kv_head, tile * kKeys, end);
    Tiles::fetch(base + stage * 2 * kTileBytes + kTileBytes, p.v, table, p.page_size, kv_head, tile * kKeys, end);
    cp_async_commit();
  };
  if (tile_begin < tile_end) fetch(tile_begin, 0);
  for (int tile = tile_begin; tile < tile_end; ++tile) {
    const int stage = (tile - tile_begin) & 1;
    if (tile + 1 < tile_end) {
      fetch(tile + 1, stage ^ 1);
      cp_async_wait<1>();
    } else {
      cp_async_wait<0>();
    }
    __syncthreads();
    const uint32_t keys = base + stage * 2 * kTileBytes, values = keys + kTileBytes;
    float s[kOwn][4] = {};
#pragma unroll
    for (int n = 0; n < kOwn; ++n)
#pragma unroll
      for (int k = 0; k < D / 16; k += 2) {
        uint32_t b[4];
        ldmatrix(b, Tiles::at(keys, n * 8 + lane % 8, k * 2 + lane / 8));
        mma_m16n8k16<T>(s[n], query[k], b[0], b[1]);
        mma_m16n8k16<T>(s[n], query[k + 1], b[2], b[3]);
      }
    online_softmax<D>(s, acc, most, sum, p, position, tile);
#pragma unroll
    for (int n = 0; n < kOwn; n += 2) {
      const uint32_t a[4] = {pack2<T>(s[n][0], s[n][1]), pack2<T>(s[n][2], s[n][3]), pack2<T>(s[n + 1][0], s[n + 1][1]), pack2<T>(s[n + 1][2], s[n + 1][3])};
#pragma unroll
      for (int d = 0; d < D / 8; d += 2) {
        uint32_t b[4];
        ldmatrix_trans(b, Tiles::at(values, n * 8 + (lane / 8 & 1) * 8 + lane % 8, d + lane / 16));
        mma_m16n8k16<T>(acc[d], a, b[0], b[1]);
        mma_m16n8k16<T>(acc[d + 1], a, b[2], b[3]);
      }
    }
    __syncthreads();
  }
  write_rows<T, D>(acc, most, sum, p, first_row, rows, start, kv_head);
}

}  // namespace fkc
