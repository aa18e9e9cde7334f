// SPDX-License-Identifier: Apache-2.0
// paged_attention on tensor cores (mma.m16n8k16), after FlashAttention-2. The query heads that share a key
// head are packed into rows: row r of a request is query token r / group, head r % group of the group. Two
// shapes of work:
//   few rows (decode)  see attention_decode.cuh
//   many rows          64 rows per block, 16 per warp; plan() lists (request, tile) so that no block is idle
#include <type_traits>

#include "attention_decode.cuh"
#define FK_PAGED_ATTENTION_EDITION 2
#include "fk/ops/paged_attention.h"

namespace {
using namespace fkc;
constexpr int kKeys = 64, kWarps = 4, kThreads = 32 * kWarps, kSplitsMax = 8;

// 64 keys or values of one head in shared memory; 16-byte chunks are swizzled by row.
template <class T, int D> struct Tile {
  static constexpr int kChunks = D / 8;
  static __device__ uint32_t at(uint32_t base, int row, int chunk) { return base + (row * kChunks + (chunk ^ (row & 7))) * 16; }
  static __device__ void fetch(uint32_t base, const AttentionCache& cache, const int32_t* table, int page_size, int64_t head, int first, int end) {
    constexpr int kRowsAtOnce = kThreads / kChunks;
    const int chunk = threadIdx.x % kChunks;
#pragma unroll
    for (int i = 0; i < kKeys / kRowsAtOnce; ++i) {
      const int row = i * kRowsAtOnce + threadIdx.x / kChunks, position = first + row;
      const bool there = position < end;
      const int64_t page = there ? table[position / page_size] : 0;
      const T* from = static_cast<const T*>(cache.data) + page * cache.page + (there ? position % page_size : 0) * cache.slot + head * cache.head;
      copy_async(at(base, row, chunk), from + chunk * 8, there);
    }
  }
};

template <class T, int D> __global__ void __launch_bounds__(kThreads) attend(const AttentionParams p) {
  extern __shared__ __align__(128) char shared[];
  wait_for_inputs();
  constexpr int kTileBytes = kKeys * D * 2, kOwn = kKeys / 8;  // tiles of S that a warp computes
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

  // Keys that any row of the block may see, in whole tiles.
  const int last_row = min(tile_row + kWarps * 16, rows) - 1;
  const int end = p.causal ? length - count + last_row / p.group + 1 : length;
  int from = 0;
  if (p.window > 0) from = max(0, length - count + tile_row / p.group - p.window + 1) / kKeys;
  const int tile_begin = from, tile_end = (end + kKeys - 1) / kKeys;

  float acc[D / 8][4] = {}, most[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
  const auto fetch = [&](int tile, int stage) {
    Tiles::fetch(base + stage * 2 * kTileBytes, p.k, table, p.page_size, kv_head, tile * kKeys, end);
    Tiles::fetch(base + stage * 2 * kTileBytes + kTileBytes, p.v, table, p.page_size, kv_head, tile * kKeys, end);
    asm volatile("cp.async.commit_group;");
  };
  if (tile_begin < tile_end) fetch(tile_begin, 0);
  for (int tile = tile_begin; tile < tile_end; ++tile) {
    const int stage = (tile - tile_begin) & 1;
    if (tile + 1 < tile_end) {
      fetch(tile + 1, stage ^ 1);
      asm volatile("cp.async.wait_group 1;");
    } else {
      asm volatile("cp.async.wait_group 0;");
    }
    __syncthreads();
    const uint32_t keys = base + stage * 2 * kTileBytes, values = keys + kTileBytes;
    float s[kOwn][4] = {};
#pragma unroll
    for (int n = 0; n < kOwn; ++n)
#pragma unroll
      for (int k = 0; k < D / 16; k += 2) {
        uint32_t b[4];
        load_matrices(b, Tiles::at(keys, n * 8 + lane % 8, k * 2 + lane / 8));
        multiply<T>(s[n], query[k], b[0], b[1]);
        multiply<T>(s[n], query[k + 1], b[2], b[3]);
      }
    // Masks, the running maximum, and the exponentials in base two.
    float next[2] = {most[0], most[1]};
#pragma unroll
    for (int n = 0; n < kOwn; ++n)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int key = tile * kKeys + n * 8 + lane % 4 * 2 + (j & 1), h = j >> 1;
        float v = s[n][j] * p.scale;
        if (p.softcap > 0) v = p.softcap * tanhf(v / p.softcap);
        const bool seen = key <= position[h] && (p.window == 0 || key > position[h] - p.window);
        s[n][j] = seen ? v * 1.4426950408889634F : -INFINITY;
        next[h] = fmaxf(next[h], s[n][j]);
      }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      next[h] = fmaxf(next[h], __shfl_xor_sync(0xffffffffu, next[h], 1));
      next[h] = fmaxf(next[h], __shfl_xor_sync(0xffffffffu, next[h], 2));
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
#pragma unroll
    for (int n = 0; n < kOwn; n += 2) {
      const uint32_t a[4] = {pair<T>(s[n][0], s[n][1]), pair<T>(s[n][2], s[n][3]), pair<T>(s[n + 1][0], s[n + 1][1]), pair<T>(s[n + 1][2], s[n + 1][3])};
#pragma unroll
      for (int d = 0; d < D / 8; d += 2) {
        uint32_t b[4];
        load_transposed(b, Tiles::at(values, n * 8 + (lane / 8 & 1) * 8 + lane % 8, d + lane / 16));
        multiply<T>(acc[d], a, b[0], b[1]);
        multiply<T>(acc[d + 1], a, b[2], b[3]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], 1);
    sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], 2);
  }

#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = first_row + lane / 4 + 8 * h;
    if (row >= rows) continue;
    const int head = kv_head * p.group + row % p.group;
    if (p.sinks) {
      const float sink = p.sinks[head] * 1.4426950408889634F, next = fmaxf(most[h], sink), shrink = exp2f(most[h] - next);
      sum[h] = sum[h] * shrink + exp2f(sink - next);
#pragma unroll
      for (int d = 0; d < D / 8; ++d) acc[d][2 * h] *= shrink, acc[d][2 * h + 1] *= shrink;
    }
    const float inverse = sum[h] > 0 ? 1.F / sum[h] : 0.F;
    T* to = static_cast<T*>(p.out) + (start + row / p.group) * p.out_token + head * p.out_head + lane % 4 * 2;
#pragma unroll
    for (int d = 0; d < D / 8; ++d)
      *reinterpret_cast<uint32_t*>(to + d * 8) = pair<T>(acc[d][2 * h] * inverse, acc[d][2 * h + 1] * inverse);
  }
}

// Blocks that share a context, a power of two: enough for one block per multiprocessor, or two for pairs.
int splits_of(int64_t blocks, int64_t max_seq_len) {
  int64_t splits = 1;
  while (splits < kSplitsMax && blocks * splits * 2 <= (splits == 1 ? 264 : 132) && splits * 2 * kFewTile * kFewWarps <= max_seq_len) splits *= 2;
  return int(splits);
}
int shift_of(int64_t page_size) {
  int shift = 0;
  while (int64_t{1} << shift < page_size) ++shift;
  return int64_t{1} << shift == page_size ? shift : -1;
}

struct PagedAttention : Base<fk::paged_attention> {
  using Base::Base;
  // How far a context is split depends on the batch. With several tokens per request the grid is what
  // plan() listed, so only decode can be captured.
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_UNIFORM_DECODE, 1, 0, FK_ACCUMULATE_F32, 0, 1, kSm};
  static bool few(const op::init& init, int64_t max_query_len) { return max_query_len * (init.num_heads / init.num_kv_heads) <= 16; }
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need& wanted) {
    need_16bit(max.q);
    need(FK_DTYPE(max.k_cache) == FK_DTYPE(max.q), "k_cache: the dtype of q only");
    need(init.head_dim == 64 || init.head_dim == 128, "head_dim: 64 or 128");
    need(init.causal || !init.window, "window: none where attention is not causal");
    need_aligned(max.q);
    need_aligned(max.k_cache);
    need_aligned(max.v_cache);
    const int64_t tokens = max.q->shape[0], requests = max.seq_lens->shape[0], group = init.num_heads / init.num_kv_heads;
    wanted.plan = (cdiv(tokens * group, 64) + requests) * 8;
  }
  // (request, first row) of every tile of 64 rows, the longest contexts first.
  int64_t plan(const op::plan& a, void* blob, int64_t) {
    const auto* starts = fk::host<int32_t>(a.cu_seqlens);
    const int64_t requests = a.seq_lens->shape[0], group = init.num_heads / init.num_kv_heads;
    auto* work = static_cast<int2*>(blob);
    int64_t n = 0;
    for (int64_t b = 0; b < requests; ++b)
      for (int64_t row = 0; row < (starts[b + 1] - starts[b]) * group; row += 64) work[n++] = int2{int(b), int(row)};
    std::reverse(work, work + n);
    return n * 8;
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t tokens = a.q->shape[0], requests = a.seq_lens->shape[0], width = init.head_dim;
    if (!tokens || !requests) return;
    const auto cache = [](const fk_in* c) { return AttentionCache{c->data, c->strides[0], c->strides[1], c->strides[2]}; };
    const bool decode = few(init, a.max_query_len);
    AttentionParams p{};
    p.q = a.q->data, p.out = a.out->data;
    p.q_token = a.q->strides[0], p.q_head = a.q->strides[1], p.out_token = a.out->strides[0], p.out_head = a.out->strides[1];
    p.k = cache(a.k_cache), p.v = cache(a.v_cache);
    p.tables = fk::data<int32_t>(a.block_tables), p.starts = fk::data<int32_t>(a.cu_seqlens), p.lengths = fk::data<int32_t>(a.seq_lens);
    p.sinks = fk::data<float>(weights.sinks);
    p.width = int(a.block_tables->shape[1]), p.page_size = int(init.page_size), p.page_shift = shift_of(init.page_size), p.heads = int(init.num_heads);
    p.group = int(init.num_heads / init.num_kv_heads), p.window = int(init.window), p.causal = int(init.causal);
    p.scale = float(init.scale), p.softcap = float(init.softcap);
    p.splits = decode ? splits_of(requests * init.num_kv_heads, a.max_seq_len) : 1;
    if (!decode) p.work = static_cast<const int2*>(ctx.plan);
    const dim3 grid(unsigned(decode ? requests : ctx.plan_bytes / 8), unsigned(init.num_kv_heads), unsigned(p.splits));
    if (!grid.x) return;
    dispatch(a.q, [&](auto type) {
      using T = decltype(type);
      const auto go = [&](auto kernel, int threads, int bytes) {
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
        launch_clusters(kernel, dim3(1, 1, unsigned(p.splits)), grid, unsigned(threads), size_t(bytes), ctx, p);
      };
      const auto sized = [&](auto size) {
        constexpr int kD = decltype(size)::value;
        if (!decode) go(attend<T, kD>, kThreads, 4 * kKeys * kD * 2);
        else if (a.max_query_len * p.group <= 8) go(attend_few<T, kD, 1>, 32 * kFewWarps, Few<T, kD, 1>::kBytes);
        else go(attend_few<T, kD, 2>, 32 * kFewWarps, Few<T, kD, 2>::kBytes);
      };
      if (width == 64) sized(std::integral_constant<int, 64>{});
      else sized(std::integral_constant<int, 128>{});
    });
  }
};
FK_OP(paged_attention, PagedAttention);

}  // namespace
