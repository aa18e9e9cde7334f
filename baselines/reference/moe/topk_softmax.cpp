// SPDX-License-Identifier: Apache-2.0
// topk_softmax: softmax over all experts, then the most probable ones (choose_experts() in
// math.hpp).
#define FK_TOPK_SOFTMAX_EDITION 3  // with the fields that the contract marks `since: 2` and `since: 3`
#include "fk/ops/topk_softmax.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct TopkSoftmax : Base<topk_softmax> {
  using Base::Base;
  struct Rows {
    double *logits, *weights;
    Rows(Scratch& s, const op::init& i) : logits(s.take(i.num_experts)), weights(s.take(i.top_k)) {}
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.expert_scale.or_null, max.logits, max.topk_weights);
    if (init.top_k > init.num_experts) throw unsupported{"top_k is more than num_experts"};
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    for (int64_t t = 0; t < args.logits->shape[0]; ++t) {
      load(args.logits, offset(args.logits, t), init.num_experts, row.logits);
      int32_t* ids = data<int32_t>(args.topk_ids) + offset(args.topk_ids, t);
      if (init.jitter > 0)
        mix(row, ids);
      else
        choose_experts(row.logits, init.num_experts, init.top_k, init.renormalize, row.logits,
                       row.weights, ids);
      if (const fk_in* scale = args.expert_scale.or_null)
        for (int64_t k = 0; k < init.top_k; ++k) row.weights[k] *= data<float>(scale)[ids[k]];
      store(args.topk_weights, offset(args.topk_weights, t), init.top_k, row.weights);
    }
  }

 private:
  // Each choice has a softmax of its own, over the experts that are left and near it.
  void mix(const Rows& row, int32_t* ids) const {
    double total = 0;
    for (int64_t k = 0; k < init.top_k; ++k) {
      const auto is_left = [&](int64_t e) {
        return std::find(ids, ids + k, static_cast<int32_t>(e)) == ids + k;
      };
      int64_t best = -1;
      for (int64_t e = 0; e < init.num_experts; ++e)
        if (is_left(e) && (best < 0 || row.logits[e] > row.logits[best])) best = e;
      const double top = row.logits[best];
      double near = 0;
      for (int64_t e = 0; e < init.num_experts; ++e) {
        const double x = row.logits[e];
        const bool is_far = (top - x) / std::max(std::abs(x), top) > 2 * init.jitter;
        if (is_left(e) && !is_far) near += std::exp(x - top);
      }
      ids[k] = static_cast<int32_t>(best);
      total += row.weights[k] = 1 / near;
    }
    for (int64_t k = 0; init.renormalize && k < init.top_k; ++k) row.weights[k] /= total;
  }
};
FK_OP(topk_softmax, TopkSoftmax);

}  // namespace
}  // namespace fk::reference
