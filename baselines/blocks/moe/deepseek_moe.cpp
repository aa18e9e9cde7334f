// SPDX-License-Identifier: Apache-2.0
// deepseek_moe as a router (linear with float32 logits, grouped_topk), fused_moe, and gated_mlp for
// the shared experts.
#include "baselines/blocks/projection.hpp"

namespace fk {
namespace {

Value routed(Builder& b, const Region& r, Value out) {
  const int64_t channels = r.integer("hidden_size"), experts = r.integer("num_experts");
  const Value logits = b.call("linear", r.path() + ".gate",
                              {{"in_features", channels},
                               {"out_features", experts},
                               {"weight", r["gate"]},
                               {"x", r["x"]},
                               {"out", b.empty(DType::f32, {b.shape(r["x"])[0], experts})}});
  Args choice = {{"logits", logits},
                 {"scoring_func", r.choice("scoring_func")},
                 {"routed_scaling_factor", r.number("routed_scaling_factor")}};
  blocks::pass_integers(choice, r,
                        {"num_experts", "top_k", "num_expert_group", "topk_group", "renormalize"});
  blocks::pass_tensors(choice, r, {"e_score_correction_bias"});
  const Outputs chosen = b.call("grouped_topk", r.path() + ".topk", choice);
  Args args = {
      {"topk_weights", chosen["topk_weights"]}, {"topk_ids", chosen["topk_ids"]}, {"out", out}};
  blocks::pass_integers(args, r,
                        {"hidden_size", "intermediate_size", "num_experts", "top_k", "block_n",
                         "block_k", "quantize_input"});
  blocks::pass_tensors(args, r, {"w13", "w2", "w13_scale_inv", "w2_scale_inv", "x"});
  return b.call("fused_moe", r.path() + ".experts", args);
}

void expand_deepseek_moe(Builder& b, const Region& r) {
  if (!r.has("shared_down")) {
    routed(b, r, r["out"]);
    return;
  }
  Args args = {{"intermediate_size", r.integer("shared_intermediate_size")},
               {"gate_up", r["shared_gate_up"]},
               {"down", r["shared_down"]},
               {"gate_up_scale_inv", r["shared_gate_up_scale_inv"]},
               {"down_scale_inv", r["shared_down_scale_inv"]},
               {"x", r["x"]}};
  blocks::pass_integers(args, r, {"hidden_size", "block_n", "block_k", "quantize_input"});
  const Value shared = b.call("gated_mlp", r.path() + ".shared_experts", args);
  const Value sum = routed(b, r, Value{});
  b.call("add", r.path() + ".add",
         {{"size", r.integer("hidden_size")}, {"a", sum}, {"b", shared}, {"out", r["out"]}});
}

FK_BLOCK(deepseek_moe, expand_deepseek_moe);

}  // namespace
}  // namespace fk
