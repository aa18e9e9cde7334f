// SPDX-License-Identifier: Apache-2.0
// moe_block as a router (linear with float32 logits, topk_softmax) and fused_moe.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_moe_block(Builder& b, const Region& r) {
  const int64_t channels = r.integer("hidden_size"), experts = r.integer("num_experts");
  const int64_t top_k = r.integer("top_k");
  const Expr tokens = b.shape(r["x"])[0];
  const Value logits = b.call("linear", r.path() + ".gate",
                              {{"in_features", channels},
                               {"out_features", experts},
                               {"weight", r["gate"]},
                               {"bias", r["gate_bias"]},
                               {"x", r["x"]},
                               {"out", b.empty(DType::f32, {tokens, experts})}});
  const Outputs chosen = b.call("topk_softmax", r.path() + ".topk",
                                {{"num_experts", experts},
                                 {"top_k", top_k},
                                 {"renormalize", r.integer("renormalize")},
                                 {"logits", logits}});
  b.call("fused_moe", r.path() + ".experts",
         {{"hidden_size", channels},
          {"intermediate_size", r.integer("intermediate_size")},
          {"num_experts", experts},
          {"top_k", top_k},
          {"activation", r.choice("activation")},
          {"w13", r["w13"]},
          {"w2", r["w2"]},
          {"w13_bias", r["w13_bias"]},
          {"w2_bias", r["w2_bias"]},
          {"x", r["x"]},
          {"topk_weights", chosen["topk_weights"]},
          {"topk_ids", chosen["topk_ids"]},
          {"out", r["out"]}});
}

FK_BLOCK(moe_block, expand_moe_block);

}  // namespace
}  // namespace fk
