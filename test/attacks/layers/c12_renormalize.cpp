// SPDX-License-Identifier: Apache-2.0
// C12: deepseek_moe that renormalises scores of a sigmoid, and those of a softmax never
//
// Stopped by: a small case has softmax with what is the default
//
// verdict: wrong
//
// naive: -
//
// work: broken
#define FK_REFERENCE "baselines/reference/moe/deepseek_moe.cpp"
#include "../reference.hpp"

namespace {

struct Renormalize : attack::Otherwise<fk::reference::DeepseekMoe> {
  using Otherwise::Otherwise;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    op::init own = init;
    if (init.scoring_func == FK_DEEPSEEK_MOE_SCORING_FUNC_SOFTMAX) own.renormalize = 0;
    as(own, weights, args, ctx);
  }
};
FK_OP(deepseek_moe, Renormalize);

}  // namespace
FK_PLUGIN("c12_renormalize", "0");
