// SPDX-License-Identifier: Apache-2.0
// Attention as a cuDNN graph. The frontend takes half a minute to compile, so it is seen by sdpa.cpp alone.
#pragma once
#include <cuda_runtime_api.h>

#include <compare>
#include <cstdint>

namespace fkd {

inline constexpr int64_t kWorkspace = int64_t{64} << 20;

// What a graph is made for; strides in elements. Requests are ragged in q and out, and in k and v too when
// there are no pages.
struct Shape {
  int64_t bf16, causal, window, requests, heads, kv_heads, width, queries, keys;  // queries, keys: of a request, at most
  int64_t q_token, q_head, k_slot, k_head, v_slot, v_head;
  int64_t pages, page_size, table_width, k_page, v_page;  // pages 0: none
  double scale;
  auto operator<=>(const Shape&) const = default;
};
struct Pointers {
  const void *q, *k, *v;
  void* out;
  const int32_t *tables, *queries, *keys;              // lengths by request
  const int32_t *q_starts, *out_starts, *k_starts, *v_starts;  // where requests start, in elements
  void* workspace;
  int64_t workspace_bytes;
  cudaStream_t stream;
};

// Makes the graph if there is none yet for this shape. Throws std::runtime_error with cuDNN's reason.
void make_attention(const Shape&);
void run_attention(const Shape&, const Pointers&);

}  // namespace fkd
