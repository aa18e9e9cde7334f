// SPDX-License-Identifier: Apache-2.0
// Sparse attention by an indexer: scores of a token with the index keys of its request, and the
// choice of the largest. indexer_scores, topk_positions and sparse_indexer share them.
#pragma once
#include <algorithm>
#include <limits>
#include <algorithm>
#include <limits>
#include <numeric>

#include "math.hpp"
#include "op.hpp"

namespace fk::reference {

// Calls body(token, request, position) for every query token of a paged batch.
template <class Forward, class Body>
void each_query(const Forward& args, Body body) {
  for (int64_t b = 0; b < args.block_tables->shape[0]; ++b) {
    const int64_t last = index<int32_t>(args.cu_seqlens, b + 1);
    const int64_t length = index<int32_t>(args.seq_lens, b);
    for (int64_t t = index<int32_t>(args.cu_seqlens, b); t < last; ++t)
      body(t, b, length - last + t);
  }
}

// A request's index keys, in pages. Heads of queries share them.
struct IndexRequest {
  const fk_in* cache;
  const int32_t* pages;
  int64_t page_size, heads, width;

  // scores[count] of q [heads, width] at `position`; minus infinity behind it.
  void score(double scale, const double* q, const double* weights, int64_t position, int64_t count,
             double* scores) const {
    std::fill_n(scores, count, -std::numeric_limits<double>::infinity());
    for (int64_t j = 0; j <= position && j < count; ++j) {
      const int64_t at = offset(cache, pages[j / page_size], j % page_size);
      double sum = 0;
      for (int64_t h = 0; h < heads; ++h)
        sum += weights[h] * std::max(dot_view(cache, at, q + h * width, width), 0.0);
      scores[j] = scale * sum;
    }
  }
};

// ids[k]: the largest of x[count] in descending order, ties to the lowest index; -1 where nothing
// is left. `order` has room for `count` numbers.
inline void choose_largest(const double* x, int64_t count, int64_t k, int64_t* order,
                           int32_t* ids) {
  const int64_t chosen = std::min(count, k);
  std::iota(order, order + count, int64_t{0});
  std::partial_sort(order, order + chosen, order + count,
                    [&](int64_t a, int64_t b) { return x[a] != x[b] ? x[a] > x[b] : a < b; });
  for (int64_t i = 0; i < k; ++i) ids[i] = i < chosen ? static_cast<int32_t>(order[i]) : -1;
}

}  // namespace fk::reference
