// SPDX-License-Identifier: Apache-2.0
// moe_decoder_layer as rms_norm, self_attention, rms_norm, moe_block.
#include "baselines/blocks/llm/attention_part.hpp"

namespace fk {
namespace {

void expand_moe_decoder_layer(Builder& b, const Region& r) {
  const Value x = blocks::attention_part(b, r, {"sinks", "o_bias"});
  b.call("moe_block", r.path() + ".block_sparse_moe",
         {{"hidden_size", r.integer("hidden_size")},
          {"intermediate_size", r.integer("intermediate_size")},
          {"num_experts", r.integer("num_experts")},
          {"top_k", r.integer("top_k")},
          {"renormalize", r.integer("renormalize")},
          {"activation", r.choice("activation")},
          {"gate", r["gate"]},
          {"gate_bias", r["gate_bias"]},
          {"w13", r["w13"]},
          {"w2", r["w2"]},
          {"w13_bias", r["w13_bias"]},
          {"w2_bias", r["w2_bias"]},
          {"x", x},
          {"out", r["hidden"]}});
}

FK_BLOCK(moe_decoder_layer, expand_moe_decoder_layer);

}  // namespace
}  // namespace fk
