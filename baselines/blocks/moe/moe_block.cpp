// SPDX-License-Identifier: Apache-2.0
// moe_block as a router (linear with float32 logits, topk_softmax) and fused_moe.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_moe_block(Builder& b, const Region& r) {
  const Dims shape{b.shape(r["x"])[0], r.integer("num_experts")};
  const Value logits = r.call(
      b, "linear", ".gate",
      {{"weight", r["gate"]}, {"bias", r["gate_bias"]}, {"out", b.empty(DType::f32, shape)}});
  const Outputs chosen = r.call(b, "topk_softmax", ".topk", {{"logits", logits}});
  r.call(b, "fused_moe", ".experts",
         {{"topk_weights", chosen["topk_weights"]},
          {"topk_ids", chosen["topk_ids"]},
          {"out", r["out"]}});
}

FK_BLOCK(moe_block, expand_moe_block);

}  // namespace
}  // namespace fk
