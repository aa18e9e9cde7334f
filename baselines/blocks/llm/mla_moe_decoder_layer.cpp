// SPDX-License-Identifier: Apache-2.0
// mla_moe_decoder_layer as rms_norm, mla_self_attention, rms_norm, deepseek_moe.
#include "baselines/blocks/llm/mla_attention_part.hpp"

namespace fk {
namespace {

void expand_mla_moe_decoder_layer(Builder& b, const Region& r) {
  Args args = {{"x", blocks::mla_attention_part(b, r)},
               {"scoring_func", r.choice("scoring_func")},
               {"routed_scaling_factor", r.number("routed_scaling_factor")},
               {"out", r["hidden"]}};
  blocks::pass_integers(
      args, r,
      {"hidden_size", "intermediate_size", "num_experts", "top_k", "num_expert_group", "topk_group",
       "renormalize", "shared_intermediate_size", "block_n", "block_k", "quantize_input"});
  blocks::pass_tensors(
      args, r,
      {"gate", "e_score_correction_bias", "w13", "w13_scale_inv", "w2", "w2_scale_inv",
       "shared_gate_up", "shared_gate_up_scale_inv", "shared_down", "shared_down_scale_inv"});
  b.call("deepseek_moe", r.path() + ".mlp", args);
}

FK_BLOCK(mla_moe_decoder_layer, expand_mla_moe_decoder_layer);

}  // namespace
}  // namespace fk
