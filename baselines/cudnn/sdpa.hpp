// SPDX-License-Identifier: Apache-2.0
// Attention as a cuDNN graph. The frontend takes half a minute to compile, so who includes this
// does not see it.
#pragma once
#include <cuda_runtime_api.h>

#if __cplusplus >= 202002L  // not in gather.cu
#include <compare>
#endif
#include <cstdint>

namespace fkd {

inline constexpr int64_t kWorkspace = int64_t{64} << 20;

// What a graph is made for; strides in elements. Requests are ragged in q and out, and in k and v
// too when there are no pages; or (exact) each has `queries` and `keys`, one after the other.
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
      *v_starts;  // where requests start, in elements; unused when exact
  void* workspace;
  int64_t workspace_bytes;
  cudaStream_t stream;
};

// Makes the graph if there is none yet for this shape. Throws std::runtime_error with cuDNN's
// reason.
void make_attention(const Shape&);
void run_attention(const Shape&, const Pointers&);

// Copies the pages of requests to dense rows [tokens, kv_heads, width] of 16-bit elements, those of
// request r from row starts[r] on; starts[requests] is how many there are.
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
