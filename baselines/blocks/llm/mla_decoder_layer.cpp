// SPDX-License-Identifier: Apache-2.0
// mla_decoder_layer as rms_norm, mla_self_attention, rms_norm, gated_mlp.
#include "baselines/blocks/llm/mla_attention_part.hpp"

namespace fk {
namespace {

void expand_mla_decoder_layer(Builder& b, const Region& r) {
  Args args = {{"x", blocks::mla_attention_part(b, r)}, {"out", r["hidden"]}};
  blocks::pass_integers(
      args, r, {"hidden_size", "intermediate_size", "block_n", "block_k", "quantize_input"});
  blocks::pass_tensors(args, r, {"gate_up", "gate_up_scale_inv", "down", "down_scale_inv"});
  b.call("gated_mlp", r.path() + ".mlp", args);
}

FK_BLOCK(mla_decoder_layer, expand_mla_decoder_layer);

}  // namespace
}  // namespace fk
