// SPDX-License-Identifier: Apache-2.0
// deepseek_moe as a router (linear with float32 logits, grouped_topk), fused_moe, and gated_mlp for
// the shared experts.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

Value routed(Builder& b, const Region& r, Value out) {
  const Dims shape{b.shape(r["x"])[0], r.integer("num_experts")};
  const Value logits =
      r.call(b, "linear", ".gate", {{"weight", r["gate"]}, {"out", b.empty(DType::f32, shape)}});
  const Outputs chosen = r.call(b, "grouped_topk", ".topk", {{"logits", logits}});
  return r.call(
      b, "fused_moe", ".experts",
      {{"topk_weights", chosen["topk_weights"]}, {"topk_ids", chosen["topk_ids"]}, {"out", out}});
}

void expand_deepseek_moe(Builder& b, const Region& r) {
  if (!r.has("shared_down")) {
    routed(b, r, r["out"]);
    return;
  }
  const Value shared = r.call(b, "gated_mlp", ".shared_experts",
                              {{"gate_up", r["shared_gate_up"]},
                               {"down", r["shared_down"]},
                               {"gate_up_scale_inv", r["shared_gate_up_scale_inv"]},
                               {"down_scale_inv", r["shared_down_scale_inv"]}});
  const Value sum = routed(b, r, Value{});
  r.call(b, "add", ".add", {{"a", sum}, {"b", shared}, {"out", r["out"]}});
}

FK_BLOCK(deepseek_moe, expand_deepseek_moe);

}  // namespace
}  // namespace fk
