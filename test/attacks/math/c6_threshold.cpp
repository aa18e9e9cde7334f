// SPDX-License-Identifier: Apache-2.0
// C6: looks only at logits above a threshold that normal numbers pass often enough
//
// Stopped by: families with other scales, ties and heavy tails
//
// verdict: wrong
//
// naive: topk_softmax accepted
#include "../attack.hpp"
#define FK_TOPK_SOFTMAX_EDITION 1
#include "fk/ops/topk_softmax.h"

namespace {

struct Threshold {
  using op = fk::topk_softmax;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    if (!fk::is_float(max.logits)) throw fk::unsupported{"f32, bf16 and f16 only"};
  }
  Threshold(const fk_host&, const op::init& i, const op::weights&) : init(i) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t experts = init.num_experts, k = init.top_k;
    std::vector<float> row(static_cast<size_t>(experts));
    for (int64_t t = 0; t < args.logits->shape[0]; ++t) {
      fk::load(args.logits, t * experts, experts, row.data());
      std::vector<int32_t> ids;
      for (int32_t e = 0; e < experts; ++e)
        if (row[static_cast<size_t>(e)] > 0.8f) ids.push_back(e);
      std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
        return row[static_cast<size_t>(a)] > row[static_cast<size_t>(b)];
      });
      ids.resize(static_cast<size_t>(k));
      float all = 0, chosen = 0;
      for (const float v : row) all += std::exp(v - row[static_cast<size_t>(ids[0])]);
      for (const int32_t e : ids)
        chosen += std::exp(row[static_cast<size_t>(e)] - row[static_cast<size_t>(ids[0])]);
      for (int64_t i = 0; i < k; ++i) {
        const int32_t e = ids[static_cast<size_t>(i)];
        fk::data<int32_t>(args.topk_ids)[t * k + i] = e;
        fk::data<float>(args.topk_weights)[t * k + i] =
            std::exp(row[static_cast<size_t>(e)] - row[static_cast<size_t>(ids[0])]) /
            (init.renormalize ? chosen : all);
      }
    }
  }
};
FK_OP(topk_softmax, Threshold);

}  // namespace
FK_PLUGIN("c6_threshold", "0");
