// SPDX-License-Identifier: Apache-2.0
// moe_decoder_layer as rms_norm, self_attention, rms_norm, moe_block.
#include "baselines/blocks/llm/attention_part.hpp"

namespace fk {
namespace {

void expand_moe_decoder_layer(Builder& b, const Region& r) {
  const Value x = blocks::attention_part(b, r);
  r.call(b, "moe_block", ".block_sparse_moe", {{"x", x}, {"out", r["hidden"]}});
}

FK_BLOCK(moe_decoder_layer, expand_moe_decoder_layer);

}  // namespace
}  // namespace fk
