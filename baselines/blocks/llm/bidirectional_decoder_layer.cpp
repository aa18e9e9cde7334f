// SPDX-License-Identifier: Apache-2.0
// bidirectional_decoder_layer as rms_norm, bidirectional_attention, rms_norm, gated_mlp. `hidden`
// is read by the first norm only, so the MLP writes its result there.
#include "baselines/blocks/llm/attention_part.hpp"

namespace fk {
namespace {

void expand_bidirectional_decoder_layer(Builder& b, const Region& r) {
  const Value x = blocks::attention_part(b, r, "bidirectional_attention", ".attention",
                                         ".attn_norm", ".ff_norm");
  r.call(b, "gated_mlp", ".mlp", {{"x", x}, {"out", r["hidden"]}});
}

FK_BLOCK(bidirectional_decoder_layer, expand_bidirectional_decoder_layer);

}  // namespace
}  // namespace fk
