// SPDX-License-Identifier: Apache-2.0
// decoder_layer as rms_norm, self_attention, rms_norm, gated_mlp. `hidden` is read by the first
// norm only, so the MLP writes its result there.
#include "baselines/blocks/llm/attention_part.hpp"

namespace fk {
namespace {

void expand_decoder_layer(Builder& b, const Region& r) {
  const Value x = blocks::attention_part(b, r);
  r.call(b, "gated_mlp", ".mlp", {{"x", x}, {"out", r["hidden"]}});
}

FK_BLOCK(decoder_layer, expand_decoder_layer);

}  // namespace
}  // namespace fk
