// SPDX-License-Identifier: Apache-2.0
// A plugin that takes a whole decode step: the reference's own code under another name. With WRONG
// one of its logits is off.
#include "fk/cpp/plugin.hpp"

#pragma push_macro("FK_OP")
#undef FK_OP
#define FK_OP(OP, CLASS) static_assert(true)
#include "baselines/reference/llm/decode_step.cpp"
#pragma pop_macro("FK_OP")

namespace fk::reference {
namespace {

struct WholeStep : DecodeStep {
  using DecodeStep::DecodeStep;
#ifdef WRONG
  void forward(const op::forward& args, const fk_ctx& ctx) {
    DecodeStep::forward(args, ctx);
    if (args.logits->shape[0] > 0) data<float>(args.logits)[1] += 0.5f;
  }
#endif
};
FK_OP(decode_step, WholeStep);

}  // namespace
}  // namespace fk::reference

FK_PLUGIN(PLUGIN_NAME, "0");
