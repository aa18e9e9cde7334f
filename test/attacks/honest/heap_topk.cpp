// SPDX-License-Identifier: Apache-2.0
// honest: topk_softmax with a partial sort of pairs
#include "../attack.hpp"
#define FK_TOPK_SOFTMAX_EDITION 1
#include "fk/ops/topk_softmax.h"

#include <utility>

namespace {

struct Honest {
  using op = fk::topk_softmax;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    if (!fk::is_float(max.logits)) throw fk::unsupported{"f32, bf16 and f16 only"};
  }
  Honest(const fk_host&, const op::init& i, const op::weights&) : init(i) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t experts = init.num_experts, k = init.top_k;
    std::vector<float> row(static_cast<size_t>(experts));
    std::vector<std::pair<float, int32_t>> order;
    for (int64_t t = 0; t < args.logits->shape[0]; ++t) {
      fk::load(args.logits, t * experts, experts, row.data());
      order.clear();
      for (int32_t e = 0; e < experts; ++e) order.emplace_back(-row[static_cast<size_t>(e)], e);
      std::partial_sort(order.begin(), order.begin() + k, order.end());
      double all = 0, chosen = 0;
      for (const float v : row) all += std::exp(double{v} + order[0].first);
      for (int64_t i = 0; i < k; ++i)
        chosen += std::exp(double{order[0].first} - order[static_cast<size_t>(i)].first);
      for (int64_t i = 0; i < k; ++i) {
        const auto [value, e] = order[static_cast<size_t>(i)];
        fk::data<int32_t>(args.topk_ids)[t * k + i] = e;
        fk::data<float>(args.topk_weights)[t * k + i] = static_cast<float>(
            std::exp(double{order[0].first} - value) / (init.renormalize ? chosen : all));
      }
    }
  }
};
FK_OP(topk_softmax, Honest);

}  // namespace
FK_PLUGIN("heap_topk", "0");
