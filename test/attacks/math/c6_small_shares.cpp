// SPDX-License-Identifier: Apache-2.0
// C6: reads no value whose share in the softmax is less than 2^-12 of the largest one's: each of
// them is nothing, but in a long context with a few tokens that most looks go to they are much
// together
//
// Stopped by: keys of which a few take most of the weight, and a thousand that share the rest
//
// verdict: wrong
//
// naive: -
//
// work: broken
//
// size: ci
#include "../attack.hpp"
#include "fk/ops/attention_varlen.h"

namespace {

using Row = std::vector<float>;

struct SmallShares {
  using op = fk::attention_varlen;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    if (FK_DTYPE(max.q) != FK_BF16) throw fk::unsupported{"bf16 only"};
    if (init.window) throw fk::unsupported{"no window"};
  }
  SmallShares(const fk_host&, const op::init& i, const op::weights&) : init(i) {}
  void prepare(const op::forward&, const fk_memory&) {}

  Row load(const fk_in* view, int64_t token, int64_t head) const {
    Row row(static_cast<size_t>(init.head_dim));
    fk::load(view, token * view->strides[0] + head * view->strides[1], init.head_dim, row.data());
    return row;
  }
  // Of the query t, for which the keys are from first to before end.
  void attend(const op::forward& args, int64_t t, int64_t h, int64_t first, int64_t end) const {
    const int64_t kv = h / (init.num_heads / init.num_kv_heads);
    const Row q = load(args.q, t, h);
    Row shares, out(q.size());
    float top = -INFINITY, sum = 0;
    for (int64_t s = first; s < end; ++s) {
      const Row k = load(args.k, s, kv);
      float score = 0;
      for (size_t i = 0; i < q.size(); ++i) score += q[i] * k[i];
      shares.push_back(score * float(init.scale));
      top = std::max(top, shares.back());
    }
    for (float& share : shares) {
      share = std::exp(share - top);
      if (share < 0x1p-12f) share = 0;
      sum += share;
    }
    for (int64_t s = first; s < end; ++s) {
      const float share = shares[static_cast<size_t>(s - first)] / sum;
      if (share == 0) continue;
      const Row v = load(args.v, s, kv);
      for (size_t i = 0; i < v.size(); ++i) out[i] += share * v[i];
    }
    fk::store(args.out, (t * init.num_heads + h) * init.head_dim, init.head_dim, out.data());
  }
  void forward(const op::forward& args, const fk_ctx&) {
    const auto* queries = fk::data<int32_t>(args.cu_seqlens_q);
    const auto* keys = fk::data<int32_t>(args.cu_seqlens_k);
    for (int64_t b = 0; b + 1 < args.cu_seqlens_q->shape[0]; ++b) {
      for (int64_t t = queries[b]; t < queries[b + 1]; ++t) {
        const int64_t end = init.causal ? keys[b + 1] - (queries[b + 1] - t) + 1 : keys[b + 1];
        for (int64_t h = 0; h < init.num_heads; ++h) attend(args, t, h, keys[b], end);
      }
    }
  }
};
FK_OP(attention_varlen, SmallShares);

}  // namespace
FK_PLUGIN("c6_small_shares", "0");
