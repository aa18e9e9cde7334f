// SPDX-License-Identifier: Apache-2.0
// Very many query rows over pages. Keys and values are first copied to rows without gaps, so TMA
// loads a tile in one box instead of a box for each page. The gain exceeds the copy if there are
// many rows for each key.
#pragma once
#include <algorithm>

#include "../parts/op.cuh"
#include "flash_attention3_plan.cuh"

namespace fkc::tiles {

constexpr int64_t kRowsPerKey = 8192;              // query rows for each key and key head, from which on the copy pays
constexpr int64_t kGatheredBytes = int64_t{128} << 20;  // of keys and values at most

inline int64_t bytes_of_key(int64_t key_heads, const Heads& h) { return key_heads * h.dim * 4; }
// Bytes of scratch memory for a step of at most so many tokens.
inline int64_t gathered_bytes(int64_t tokens, int64_t keys, int64_t key_heads, const Heads& h) {
  return tokens * h.group < kRowsPerKey ? 0 : std::min(keys * bytes_of_key(key_heads, h), kGatheredBytes);
}

// The first key of each request, [requests + 1], stands behind the lists of the plan. Such a plan
// has a size of 16 more than a multiple of 32, so the kernels recognise it.
inline int64_t starts_bytes(int64_t requests) { return cdiv((requests + 1) * 4, 32) * 32 + 16; }
inline bool is_gathered(int64_t plan_bytes) { return plan_bytes % 32 == 16; }

template <class RequestOf> bool gathers(int64_t requests, int64_t key_heads, const Heads& h, RequestOf request_of) {
  if (requests >= 65536) return false;  // a grid has fewer blocks in y
  int64_t keys = 0;
  double rows = 0;
  for (int64_t r = 0; r < requests; ++r) {
    const Request request = request_of(r);
    if (!request.tokens) continue;
    keys += request.keys;
    rows += double(request.tokens * h.group) * double(request.keys);
  }
  return keys && keys <= kGatheredBytes / bytes_of_key(key_heads, h) && rows >= double(kRowsPerKey) * double(keys);
}

// plan() for rows, and the first key of each request. Keys of requests without a token are not
// copied.
template <class RequestOf> int64_t plan_gathered(int64_t requests, const Heads& h, RequestOf request_of, bool causal, void* blob) {
  std::vector<int32_t> starts(1);
  for (int64_t r = 0; r < requests; ++r) starts.push_back(starts.back() + int32_t(request_of(r).tokens ? request_of(r).keys : 0));
  const int64_t lists = plan(requests, h, 0, causal, [&](int64_t r) {
    Request request = request_of(r);
    request.where = starts[size_t(r)];
    return request;
  }, blob);
  std::copy(starts.begin(), starts.end(), reinterpret_cast<int32_t*>(static_cast<char*>(blob) + lists));
  return lists + starts_bytes(requests);
}

constexpr int kGatherThreads = 256;

// Copies keys, then values, of request blockIdx.y to rows [key, head, D] of `to`, 16 bytes a
// thread.
inline __global__ void __launch_bounds__(kGatherThreads)
    gather_pages(const AttentionCache k, const AttentionCache v, const int32_t* tables, int width, int page_shift, const int32_t* starts, int chunks, int head_chunks, uint4* to, int64_t values) {
  launch_dependents();
  grid_dependency_wait();
  const int first = starts[blockIdx.y], keys = starts[blockIdx.y + 1] - first;
  const int32_t* const table = tables + int64_t(blockIdx.y) * width;
  const int64_t items = int64_t(keys) * chunks, stride = int64_t(gridDim.x) * kGatherThreads;
  const auto from = [&](const AttentionCache& cache, int page, int slot, int chunk) {
    return *reinterpret_cast<const uint4*>(static_cast<const uint16_t*>(cache.data) + page * cache.page + slot * cache.slot + chunk / head_chunks * cache.head + chunk % head_chunks * 8);
  };
#pragma unroll 4
  for (int64_t i = int64_t(blockIdx.x) * kGatherThreads + threadIdx.x; i < items; i += stride) {
    const int key = int(i / chunks), chunk = int(i % chunks), page = table[key >> page_shift], slot = key & ((1 << page_shift) - 1);
    const int64_t at = int64_t(first) * chunks + i;
    to[at] = from(k, page, slot, chunk);
    to[values + at] = from(v, page, slot, chunk);
  }
}

// attend() with a plan of plan_gathered(). `a` has the tables.
template <class T> void attend_gathered(Arguments a, const Heads& h, int64_t requests, const fk_in* q, const fk_in* k, const fk_in* v, const fk_ctx& ctx) {
  const int64_t heads = k->shape[2], row = heads * h.dim, room = std::min(ctx.scratch_bytes, kGatheredBytes) / bytes_of_key(heads, h), lists = ctx.plan_bytes - starts_bytes(requests);
  auto* const keys = static_cast<uint16_t*>(ctx.scratch);
  const auto* const starts = reinterpret_cast<const int32_t*>(static_cast<const char*>(ctx.plan) + lists);
  const unsigned blocks = unsigned(std::max<int64_t>(sm_count() * 8 / requests, 1));
  launch(gather_pages, dim3(blocks, unsigned(requests)), dim3(kGatherThreads), 0, ctx, cache_of(k), cache_of(v), a.tables, a.width, a.page_shift, starts, int(row / 8), int(h.dim / 8),
         reinterpret_cast<uint4*>(keys), room * row / 8);
  a.tables = nullptr;
  const int64_t shape[3] = {room, heads, h.dim}, strides[3] = {row, h.dim, 1};
  const auto rows = [&](uint16_t* data) {
    fk_out view{};
    view.data = data, view.device_type = k->device_type, view.device_id = k->device_id, view.ndim = 3, view.dtype = k->dtype;
    view.shape = shape, view.strides = strides, view.nbytes = room * row * 2;
    return view;
  };
  const fk_out dense_k = rows(keys), dense_v = rows(keys + room * row);
  fk_ctx own = ctx;
  own.plan_bytes = lists;
  attend<T>(a, h, q, fk_as_in(&dense_k), fk_as_in(&dense_v), own);
}

}  // namespace fkc::tiles
