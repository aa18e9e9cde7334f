// SPDX-License-Identifier: Apache-2.0
// grouped_topk: choose_grouped() of grouped_topk.hpp for each token.
#include "fk/ops/grouped_topk.h"
#include "grouped_topk.hpp"

namespace fk::reference {
namespace {

struct GroupedTopk : Base<grouped_topk> {
  using Base::Base;
  struct Rows {
    double *logits, *weights;
    GroupedChoiceRows choice;
    Rows(Scratch& s, const op::init& i)
        : logits(s.take(i.num_experts)),
          weights(s.take(i.top_k)),
          choice(s, i.num_experts, i.num_expert_group) {}
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.logits);
    need_groups(init.num_experts, init.top_k, init.num_expert_group, init.topk_group);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    const GroupedChoice choice{init.num_experts,
                               init.top_k,
                               init.num_expert_group,
                               init.topk_group,
                               init.scoring_func == FK_GROUPED_TOPK_SCORING_FUNC_SIGMOID,
                               init.renormalize != 0,
                               init.routed_scaling_factor,
                               weights.e_score_correction_bias.or_null};
    for (int64_t t = 0; t < args.logits->shape[0]; ++t) {
      load(args.logits, offset(args.logits, t), init.num_experts, row.logits);
      choose_grouped(choice, row.logits, row.choice, row.weights,
                     data<int32_t>(args.topk_ids) + offset(args.topk_ids, t));
      store(args.topk_weights, offset(args.topk_weights, t), init.top_k, row.weights);
    }
  }
};
FK_OP(grouped_topk, GroupedTopk);

}  // namespace
}  // namespace fk::reference
