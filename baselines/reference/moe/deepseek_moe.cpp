// SPDX-License-Identifier: Apache-2.0
// deepseek_moe: grouped_experts() of grouped_experts.hpp for each token.
#include "fk/ops/deepseek_moe.h"
#include "grouped_experts.hpp"

namespace fk::reference {
namespace {

struct DeepseekMoe : Base<deepseek_moe> {
  using Base::Base;
  struct Rows {
    double *x, *out;
    GroupedExpertsRows experts;
    Rows(Scratch& s, const op::init& i)
        : x(s.take(i.hidden_size)), out(s.take(i.hidden_size)), experts(s, i) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.out);
    need_grouped_experts(init, weights);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    const bool sigmoid = init.scoring_func == FK_DEEPSEEK_MOE_SCORING_FUNC_SIGMOID;
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      load(args.x, offset(args.x, t), init.hidden_size, row.x);
      grouped_experts(init, weights, sigmoid, row.x, row.experts, row.out);
      store(args.out, offset(args.out, t), init.hidden_size, row.out);
    }
  }
};
FK_OP(deepseek_moe, DeepseekMoe);

}  // namespace
}  // namespace fk::reference
