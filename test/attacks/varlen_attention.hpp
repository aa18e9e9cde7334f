// SPDX-License-Identifier: Apache-2.0
// The common parts of attacks on attention_varlen: rows of heads, and the keys that a query sees.
#pragma once
#include "attack.hpp"
#define FK_ATTENTION_VARLEN_EDITION 1
#include "fk/ops/attention_varlen.h"

namespace attack {

struct VarlenAttention {
  using op = fk::attention_varlen;
  using Row = std::vector<float>;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  VarlenAttention(const fk_host&, const op::init& i, const op::weights&) : init(i) {}
  void prepare(const op::forward&, const fk_memory&) {}

  Row load(const fk_in* view, int64_t token, int64_t head) const {
    Row row(static_cast<size_t>(init.head_dim));
    fk::load(view, token * view->strides[0] + head * view->strides[1], init.head_dim, row.data());
    return row;
  }
  float score(const Row& q, const Row& k) const {
    float sum = 0;
    for (size_t i = 0; i < q.size(); ++i) sum += q[i] * k[i];
    return sum * float(init.scale);
  }
  void store(const op::forward& args, int64_t t, int64_t h, const Row& row) const {
    fk::store(args.out, (t * init.num_heads + h) * init.head_dim, init.head_dim, row.data());
  }
  // attend(query, head, key-value head, first key, key behind the last) for all of them.
  template <class Attend>
  void each(const op::forward& args, const Attend& attend) const {
    const auto* queries = fk::data<int32_t>(args.cu_seqlens_q);
    const auto* keys = fk::data<int32_t>(args.cu_seqlens_k);
    for (int64_t b = 0; b + 1 < args.cu_seqlens_q->shape[0]; ++b) {
      for (int64_t t = queries[b]; t < queries[b + 1]; ++t) {
        const int64_t at = keys[b + 1] - (queries[b + 1] - t);  // the key of the query itself
        int64_t first = keys[b], end = keys[b + 1];
        if (init.causal) end = at + 1;
        if (init.window) first = std::max(first, at - init.window + 1);
        if (init.window && !init.causal) end = std::min(end, at + init.window);
        for (int64_t h = 0; h < init.num_heads; ++h)
          attend(t, h, h / (init.num_heads / init.num_kv_heads), first, end);
      }
    }
  }
};

}  // namespace attack
