// SPDX-License-Identifier: Apache-2.0
// mla_decoder_layer as rms_norm, mla_self_attention, rms_norm, gated_mlp.
#include "baselines/blocks/llm/attention_part.hpp"

namespace fk {
namespace {

void expand_mla_decoder_layer(Builder& b, const Region& r) {
  const Value x = blocks::attention_part(b, r, "mla_self_attention");
  r.call(b, "gated_mlp", ".mlp", {{"x", x}, {"out", r["hidden"]}});
}

FK_BLOCK(mla_decoder_layer, expand_mla_decoder_layer);

}  // namespace
}  // namespace fk
