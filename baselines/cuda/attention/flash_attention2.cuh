// SPDX-License-Identifier: Apache-2.0
// Attention of many query rows on mma.sync, after FlashAttention-2: 64 rows per block, 16 per warp,
// and tiles of 64 keys. A class `Rows` says where rows and keys are (paged_rows.cuh,
// image_rows.cuh). It is made by each thread of a block, and has
//   Element, Params          the type of q, and the kernel's argument
//   kFewKeys                 there are often fewer keys than a tile has
//   rows, first              the number of rows, and the first row of this block
//   begin, end               the keys which rows of this block see
//   width                    elements of a head, a multiple of 8
//   q(row), out(row)         the address of a row
//   k(key), v(key)           the address of a key's row
//   look(row0, row1)         chooses the two rows of this thread
//   start(s, tile)           sets scores before the products are added
//   finish(s, tile)          turns scores into exponents of 2, -inf for a hidden key
//   sink(row)                a score without a value, or -inf
#pragma once
#include "../parts/cp_async.cuh"
#include "../parts/mma.cuh"
#include "../parts/op.cuh"
#include "../parts/softmax.cuh"
#include "../parts/swizzle.cuh"
#include "params.cuh"

namespace fkc {

constexpr int kKeys = 64, kWarps = 4, kThreads = 32 * kWarps;

// 64 rows of q, keys or values in shared memory, padded with zeros to D elements. Pieces of 16
// bytes are swizzled by row.
template <class T, int D>
struct Tile {
  static constexpr int kPieces = D / 8, kPitch = (kPieces + 7) / 8 * 8,
                       kBytes = kKeys * kPitch * 16;
  static __device__ uint32_t at(uint32_t base, int row, int piece) {
    return swizzled<kPitch>(base, row, piece);
  }
  // Rows [first, first + 64) of those before `end`. The others become zeros.
  template <class RowOf>
  static __device__ void fetch(uint32_t base, int first, int end, int width, RowOf row_of) {
#pragma unroll
    for (int i = 0; i < kKeys * kPieces / kThreads; ++i) {
      const int item = i * kThreads + int(threadIdx.x), row = item / kPieces,
                piece = item % kPieces;
      const bool there = first + row < end && piece * 8 < width;
      const T* const from = row_of(there ? first + row : 0);
      cp_async_16(at(base, row, piece), from + (there ? piece * 8 : 0), there);
    }
  }
};

// Turns scores of a tile into weights. A thread has two rows, and two of every eight columns.
template <int D>
__device__ void online_softmax(float (&s)[kKeys / 8][4], float (&acc)[D / 8][4], float (&most)[2],
                               float (&sum)[2]) {
  constexpr int kOwn = kKeys / 8;
  float next[2] = {most[0], most[1]};
#pragma unroll
  for (int n = 0; n < kOwn; ++n)
#pragma unroll
    for (int j = 0; j < 4; ++j) next[j >> 1] = fmaxf(next[j >> 1], s[n][j]);
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
template <class Rows, int D>
__device__ void write_rows(const Rows& rows, float (&acc)[D / 8][4], float (&most)[2],
                           float (&sum)[2], int first_row) {
  using T = typename Rows::Element;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int h = 0; h < 2; ++h) sum[h] = quad_sum(sum[h]);

#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = first_row + lane / 4 + 8 * h;
    if (row >= rows.rows) continue;
    const float sink = rows.sink(row);
    float factor = 1;
    if (sink > -INFINITY) factor = add_sink(sink, most[h], sum[h]);
    factor = sum[h] > 0 ? factor / sum[h] : 0.F;
    T* const to = rows.out(row) + lane % 4 * 2;
#pragma unroll
    for (int d = 0; d < D / 8; ++d)
      if (d * 8 < rows.width)
        *reinterpret_cast<uint32_t*>(to + d * 8) =
            pack2<T>(acc[d][2 * h] * factor, acc[d][2 * h + 1] * factor);
  }
}

// Rows of q stay in registers if these are enough, else in shared memory.
template <int D>
constexpr bool kQueriesShared = D > 128;
template <class T, int D>
constexpr int kFlashAttention2Bytes = (kQueriesShared<D> ? 5 : 4) * Tile<T, D>::kBytes;

// long: one loop over tiles of keys. Its steps share the fragments of a warp.
template <class Rows, int D>
__global__ void __launch_bounds__(kThreads) flash_attention2(const typename Rows::Params p) {
  using T = typename Rows::Element;
  using Tiles = Tile<T, D>;
  constexpr int kOwn = kKeys / 8, kDeep = D / 16;  // fragments of scores of a warp; of a row of q
  char* const shared = dynamic_shared();
  wait_for_inputs();
  Rows rows(p);
  if (rows.first >= rows.rows) return;
  const uint32_t base = shared_address(shared), queries = base + 4 * Tiles::kBytes;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first_row = rows.first + warp * 16;
  const int row0 = min(first_row + lane / 4, rows.rows - 1),
            row1 = min(first_row + lane / 4 + 8, rows.rows - 1);
  rows.look(row0, row1);
  // A warp without rows only helps to load.
  const bool works = !Rows::kFewKeys || first_row < rows.rows;

  uint32_t query[kQueriesShared<D> ? 1 : kDeep][4];
  if constexpr (!kQueriesShared<D>) {
    const T* const q[2] = {rows.q(row0) + lane % 4 * 2, rows.q(row1) + lane % 4 * 2};
#pragma unroll
    for (int k = 0; k < kDeep; ++k)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int column = k * 16 + (j >> 1) * 8;
        query[k][j] =
            column < rows.width ? *reinterpret_cast<const uint32_t*>(q[j & 1] + column) : 0;
      }
  } else {
    Tiles::fetch(queries, rows.first, rows.rows, rows.width, [&](int row) { return rows.q(row); });
  }

  const int end = rows.end, tile_begin = rows.begin / kKeys, tile_end = (end + kKeys - 1) / kKeys;
  float acc[D / 8][4] = {}, most[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
  const auto fetch = [&](int tile, int stage) {
    const uint32_t to = base + stage * 2 * Tiles::kBytes;
    Tiles::fetch(to, tile * kKeys, end, rows.width, [&](int key) { return rows.k(key); });
    Tiles::fetch(to + Tiles::kBytes, tile * kKeys, end, rows.width,
                 [&](int key) { return rows.v(key); });
    cp_async_commit();
  };
  if (tile_begin < tile_end) fetch(tile_begin, 0);
  for (int tile = tile_begin; tile < tile_end; ++tile) {
    const int stage = (tile - tile_begin) & 1;
    // Fragments of keys behind the last one need no products.
    const auto live = [&](int n) { return !Rows::kFewKeys || tile * kKeys + n * 8 < end; };
    float s[kOwn][4];
    if (works) rows.start(s, tile);
    if (tile + 1 < tile_end) {
      fetch(tile + 1, stage ^ 1);
      cp_async_wait<1>();
    } else {
      cp_async_wait<0>();
    }
    __syncthreads();
    const uint32_t keys = base + stage * 2 * Tiles::kBytes, values = keys + Tiles::kBytes;
    if (works) {
      if constexpr (!kQueriesShared<D>) {
#pragma unroll
        for (int n = 0; n < kOwn; ++n) {
          if (!live(n)) continue;
#pragma unroll
          for (int k = 0; k < kDeep; k += 2) {
            uint32_t b[4];
            ldmatrix(b, Tiles::at(keys, n * 8 + lane % 8, k * 2 + lane / 8));
            mma_m16n8k16<T>(s[n], query[k], b[0], b[1]);
            if (k + 1 < kDeep) mma_m16n8k16<T>(s[n], query[k + 1 < kDeep ? k + 1 : k], b[2], b[3]);
          }
        }
      } else {
#pragma unroll 2
        for (int k = 0; k < kDeep; ++k) {
          ldmatrix(query[0], Tiles::at(queries, warp * 16 + lane % 16, k * 2 + lane / 16));
#pragma unroll
          for (int n = 0; n < kOwn; n += 2) {
            uint32_t b[4];
            ldmatrix(b, Tiles::at(keys, n * 8 + lane / 16 * 8 + lane % 8, k * 2 + lane / 8 % 2));
            mma_m16n8k16<T>(s[n], query[0], b[0], b[1]);
            mma_m16n8k16<T>(s[n + 1], query[0], b[2], b[3]);
          }
        }
      }
      rows.finish(s, tile);
      online_softmax<D>(s, acc, most, sum);
#pragma unroll
      for (int n = 0; n < kOwn; n += 2) {
        if (!live(n)) continue;
        const uint32_t a[4] = {pack2<T>(s[n][0], s[n][1]), pack2<T>(s[n][2], s[n][3]),
                               pack2<T>(s[n + 1][0], s[n + 1][1]),
                               pack2<T>(s[n + 1][2], s[n + 1][3])};
#pragma unroll
        for (int d = 0; d < D / 8; d += 2) {
          uint32_t b[4];
          ldmatrix_trans(b,
                         Tiles::at(values, n * 8 + (lane / 8 & 1) * 8 + lane % 8, d + lane / 16));
          mma_m16n8k16<T>(acc[d], a, b[0], b[1]);
          mma_m16n8k16<T>(acc[d + 1], a, b[2], b[3]);
        }
      }
    }
    __syncthreads();
  }
  write_rows<Rows, D>(rows, acc, most, sum, first_row);
}

}  // namespace fkc
