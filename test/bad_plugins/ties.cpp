// SPDX-License-Identifier: Apache-2.0
// topk_softmax done right, except that of equal logits the last one is chosen.
#include <cmath>

#include "fk/cpp/floats.hpp"
#define FK_TOPK_SOFTMAX_EDITION 1
#include "fk/ops/topk_softmax.h"

namespace {

struct Ties {
  using op = fk::topk_softmax;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;

  static void supports(const op::init& init, const op::weights&, const op::forward&,
                       fk_need& need) {
    need.scratch = init.num_experts * int64_t{sizeof(float)};
  }
  Ties(const fk_host&, const op::init& i, const op::weights&) : init(i) {}
  void prepare(const op::forward&, const fk_memory&) {}

  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t experts = init.num_experts, top = init.top_k;
    auto* const left = static_cast<float*>(ctx.scratch);
    for (int64_t t = 0; t < args.logits->shape[0]; ++t) {
      fk::load(args.logits, t * experts, experts, left);
      float most = left[0], all = 0, chosen = 0;
      for (int64_t e = 0; e < experts; ++e) most = std::fmax(most, left[e]);
      for (int64_t e = 0; e < experts; ++e) all += left[e] = std::exp(left[e] - most);
      auto* const ids = static_cast<int32_t*>(args.topk_ids->data) + t * top;
      auto* const weights = static_cast<float*>(args.topk_weights->data) + t * top;
      for (int64_t k = 0; k < top; ++k) {
        int64_t best = 0;
        for (int64_t e = 1; e < experts; ++e)
          if (left[e] >= left[best]) best = e;
        ids[k] = static_cast<int32_t>(best);
        weights[k] = left[best] / all;
        chosen += weights[k];
        left[best] = -1;
      }
      for (int64_t k = 0; init.renormalize && k < top; ++k) weights[k] /= chosen;
    }
  }
};
FK_OP(topk_softmax, Ties);

}  // namespace

FK_PLUGIN("bad_ties", "0.1.0");
