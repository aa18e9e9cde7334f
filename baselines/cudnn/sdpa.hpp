// SPDX-License-Identifier: Apache-2.0
// Attention as a cuDNN graph. The frontend takes half a minute to compile, so this header does not
// include it.
#pragma once
#include <cuda_runtime_api.h>

#if __cplusplus >= 202002L  // not in gather.cu
#include <compare>
#endif
#include <cstdint>

namespace fkd {

inline constexpr int64_t kWorkspace = int64_t{64} << 20;

// The key of a graph. Strides are in elements. Requests are ragged in q and out, and without pages
// in k and v too. If `exact`, each request has `queries` and `keys`, one request after the other.
struct Shape {
  int64_t bf16, causal, window, requests, heads, kv_heads, width, queries,
      keys;  // queries, keys: of a request, at most
  int64_t exact;
  int64_t q_token, q_head, k_slot, k_head, v_slot, v_head;
  int64_t pages, page_size, table_width, k_page, v_page;  // pages 0: none
  double scale;
#if __cplusplus >= 202002L
  auto operator<=>(const Shape&) const = default;
#endif
};
struct Pointers {
  const void *q, *k, *v;
  void* out;
  const int32_t *tables, *queries, *keys;  // lengths by request
  const int32_t *q_starts, *out_starts, *k_starts,
      *v_starts;  // starts of requests, in elements; unused if exact
  void* workspace;
  int64_t workspace_bytes;
  cudaStream_t stream;
};

// Makes the graph if there is none for this shape. Throws std::runtime_error with cuDNN's reason.
void make_attention(const Shape&);
void run_attention(const Shape&, const Pointers&);

// Copies the pages of requests to dense rows [tokens, kv_heads, width] of 16-bit elements. Request
// r begins at row starts[r], and starts[requests] is the number of rows.
struct Gather {
  const void *k, *v;
  void *to_k, *to_v;
  const int32_t *tables, *starts;
  int64_t k_page, k_slot, k_head, v_page, v_slot, v_head;  // in elements
  int requests, table_width, page_size, kv_heads, width;
  cudaStream_t stream;
};
void gather_pages(const Gather&);

}  // namespace fkd
