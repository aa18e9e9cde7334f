// SPDX-License-Identifier: Apache-2.0
// Rows and keys of flash_attention2.cuh in a paged cache, or in rows without tables. Row r of a
// request is query token r / group, and head r % group of the heads with one key head.
#pragma once
#include "flash_attention2.cuh"

namespace fkc {

template <class T>
struct PagedRows {
  using Element = T;
  using Params = AttentionParams;
  static constexpr bool kFewKeys = false;

  const AttentionParams& p;
  const int32_t* table;
  int start_token, kv_head, past, last_key,
      first_key = 0, position[2];  // past: keys before the request's first query
  int rows, first, begin, end, width;

  __device__ explicit PagedRows(const AttentionParams& params)
      : p(params), kv_head(int(blockIdx.y)), position{}, width(p.head_dim) {
    const int request = p.work[blockIdx.x].x;
    start_token = p.starts[request];
    const int count = p.starts[request + 1] - start_token;
    if (!p.tables) first_key = p.key_starts[request];
    const int length = p.tables ? p.lengths[request] : p.key_starts[request + 1] - first_key;
    table = p.tables + int64_t(request) * p.width;
    last_key = length - 1;
    past = length - count;
    rows = count * p.group, first = p.work[blockIdx.x].y;
    const int last = min(first + kWarps * 16, rows) - 1;
    end = p.causal ? past + last / p.group + 1 : length;
    begin = p.window > 0 ? max(0, past + first / p.group - p.window + 1) : 0;
  }
  __device__ int64_t token(int row) const { return start_token + row / p.group; }
  __device__ int head(int row) const { return kv_head * p.group + row % p.group; }
  __device__ const T* q(int row) const {
    return static_cast<const T*>(p.q) + token(row) * p.q_token + head(row) * p.q_head;
  }
  __device__ T* out(int row) const {
    return static_cast<T*>(p.out) + token(row) * p.out_token + head(row) * p.out_head;
  }
  __device__ const T* k(int key) const { return at(p.k, key); }
  __device__ const T* v(int key) const { return at(p.v, key); }
  __device__ void look(int row0, int row1) {
    position[0] = p.causal ? past + row0 / p.group : last_key;
    position[1] = p.causal ? past + row1 / p.group : last_key;
  }
  __device__ void start(float (&s)[kKeys / 8][4], int) const {
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int j = 0; j < 4; ++j) s[n][j] = 0;
  }
  __device__ void finish(float (&s)[kKeys / 8][4], int tile) const {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int key = tile * kKeys + n * 8 + lane % 4 * 2 + (j & 1), h = j >> 1;
        float score = s[n][j] * p.scale;
        if (p.softcap > 0) score = p.softcap * tanhf(score / p.softcap);
        const bool seen = key <= position[h] && (p.window == 0 || key > position[h] - p.window);
        s[n][j] = seen ? score * kLog2e : -INFINITY;
      }
  }
  __device__ float sink(int row) const { return p.sinks ? p.sinks[head(row)] * kLog2e : -INFINITY; }

 private:
  __device__ const T* at(const AttentionCache& cache, int key) const {
    if (!p.tables)
      return static_cast<const T*>(cache.data) + int64_t(first_key + key) * cache.slot +
             kv_head * cache.head;
    const int64_t page = table[key / p.page_size];
    return static_cast<const T*>(cache.data) + page * cache.page + key % p.page_size * cache.slot +
           kv_head * cache.head;
  }
};

}  // namespace fkc
