// SPDX-License-Identifier: Apache-2.0
// topk_softmax as vLLM's kernel has it: a softmax first, then the largest probability, and the
// lower index among equal ones.
#pragma once
#include "attack.hpp"
#define FK_TOPK_SOFTMAX_EDITION 1
#include "fk/ops/topk_softmax.h"

namespace attack {

struct SoftmaxFirst {
  using op = fk::topk_softmax;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    if (!fk::is_float(max.logits)) throw fk::unsupported{"f32, bf16 and f16 only"};
  }
  SoftmaxFirst(const fk_host&, const op::init& i, const op::weights&) : init(i) {}
  void prepare(const op::forward&, const fk_memory&) {}

  // `least`: where the running maximum begins; `stored` is what becomes of a probability.
  template <class Stored>
  void route(const op::forward& args, float least, Stored stored) const {
    const int64_t experts = init.num_experts, top_k = init.top_k;
    std::vector<float> row(static_cast<size_t>(experts));
    for (int64_t t = 0; t < args.logits->shape[0]; ++t) {
      fk::load(args.logits, t * experts, experts, row.data());
      float top = least, sum = 0, total = 0;
      for (const float logit : row) top = std::max(top, logit);
      for (float& logit : row) sum += logit = std::exp(logit - top);
      for (float& share : row) share = stored(share / sum);
      float* weights = fk::data<float>(args.topk_weights) + t * top_k;
      for (int64_t k = 0; k < top_k; ++k) {
        const auto best = std::max_element(row.begin(), row.end());
        fk::data<int32_t>(args.topk_ids)[t * top_k + k] = static_cast<int32_t>(best - row.begin());
        total += weights[k] = *best;
        *best = -1;
      }
      for (int64_t k = 0; init.renormalize && k < top_k; ++k) weights[k] /= total;
    }
  }
};

}  // namespace attack
