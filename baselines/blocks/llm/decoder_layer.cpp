// SPDX-License-Identifier: Apache-2.0
// decoder_layer as rms_norm, self_attention, rms_norm, gated_mlp. `hidden` is read by the first
// norm only, so the MLP writes its result there.
#include "baselines/blocks/llm/attention_part.hpp"

namespace fk {
namespace {

void expand_decoder_layer(Builder& b, const Region& r) {
  const Value x = blocks::attention_part(b, r, {"tree_lens", "tree_mask"});
  b.call("gated_mlp", r.path() + ".mlp",
         {{"hidden_size", r.integer("hidden_size")},
          {"intermediate_size", r.integer("intermediate_size")},
          {"gate_up", r["gate_up"]},
          {"down", r["down"]},
          {"x", x},
          {"out", r["hidden"]}});
}

FK_BLOCK(decoder_layer, expand_decoder_layer);

}  // namespace
}  // namespace fk
