// SPDX-License-Identifier: Apache-2.0
// C5: decode_step whose logits are rounded to bfloat16 before they are stored in float32
//
// Stopped by: of a float32 output next to no value may be one that 16 bits hold
//
// verdict: wrong
//
// naive: -
//
// work: broken
//
// size: ci
#define FK_REFERENCE "baselines/reference/llm/decode_step.cpp"
#include "../reference.hpp"

namespace {

struct Rounded : fk::reference::DecodeStep {
  using DecodeStep::DecodeStep;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    DecodeStep::supports(init, weights, max, need);
    if (FK_DTYPE(weights.lm_head) != FK_BF16 || FK_DTYPE(max.k_cache->at[0]) != FK_BF16)
      throw fk::unsupported{"bf16 only"};
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    DecodeStep::forward(args, ctx);
    float* logits = fk::data<float>(args.logits);
    for (int64_t i = 0; i < args.logits->shape[0] * init.vocab_size; ++i) {
      fk::reference::Bf16 bits;
      fk::reference::put(bits, logits[i]);
      logits[i] = static_cast<float>(fk::reference::value(bits));
    }
  }
};
FK_OP(decode_step, Rounded);

}  // namespace
FK_PLUGIN("c5_rounded_logits", "0");
