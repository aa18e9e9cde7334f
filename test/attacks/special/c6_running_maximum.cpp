// SPDX-License-Identifier: Apache-2.0
// C6: attention whose running maximum begins at -50000: a query whose scores are all below that
// gets nothing
//
// Stopped by: a case whose scores are all below -60000
//
// verdict: wrong
//
// naive: -
//
// work: broken
#include "../attack.hpp"
#include "fk/ops/attention_varlen.h"

namespace {

using Row = std::vector<float>;

struct RunningMaximum {
  using op = fk::attention_varlen;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    if (!fk::is_float(max.q)) throw fk::unsupported{"f32, bf16 and f16 only"};
  }
  RunningMaximum(const fk_host&, const op::init& i, const op::weights&) : init(i) {}
  void prepare(const op::forward&, const fk_memory&) {}

  Row load(const fk_in* view, int64_t token, int64_t head) const {
    Row row(static_cast<size_t>(init.head_dim));
    fk::load(view, token * view->strides[0] + head * view->strides[1], init.head_dim, row.data());
    return row;
  }
  // One key after the other, as kernels do that read keys once.
  void attend(const op::forward& args, int64_t t, int64_t h, int64_t first, int64_t end) const {
    const int64_t kv = h / (init.num_heads / init.num_kv_heads);
    const Row q = load(args.q, t, h);
    Row out(q.size());
    float top = -50000, sum = 0;
    for (int64_t s = first; s < end; ++s) {
      const Row k = load(args.k, s, kv), v = load(args.v, s, kv);
      float score = 0;
      for (size_t i = 0; i < q.size(); ++i) score += q[i] * k[i];
      score *= float(init.scale);
      const float before = top;
      top = std::max(top, score);
      const float kept = std::exp(before - top), share = std::exp(score - top);
      sum = sum * kept + share;
      for (size_t i = 0; i < v.size(); ++i) out[i] = out[i] * kept + share * v[i];
    }
    for (float& value : out) value = sum > 0 ? value / sum : 0;
    fk::store(args.out, (t * init.num_heads + h) * init.head_dim, init.head_dim, out.data());
  }
  void forward(const op::forward& args, const fk_ctx&) {
    const auto* queries = fk::data<int32_t>(args.cu_seqlens_q);
    const auto* keys = fk::data<int32_t>(args.cu_seqlens_k);
    for (int64_t b = 0; b + 1 < args.cu_seqlens_q->shape[0]; ++b) {
      for (int64_t t = queries[b]; t < queries[b + 1]; ++t) {
        const int64_t at = keys[b + 1] - (queries[b + 1] - t);  // the key of the query itself
        int64_t first = keys[b], end = keys[b + 1];
        if (init.causal) end = at + 1;
        if (init.window) first = std::max(first, at - init.window + 1);
        if (init.window && !init.causal) end = std::min(end, at + init.window);
        for (int64_t h = 0; h < init.num_heads; ++h) attend(args, t, h, first, end);
      }
    }
  }
};
FK_OP(attention_varlen, RunningMaximum);

}  // namespace
FK_PLUGIN("c6_running_maximum", "0");
