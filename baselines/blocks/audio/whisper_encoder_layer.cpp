// SPDX-License-Identifier: Apache-2.0
// whisper_encoder_layer as layer_norm, encoder_attention, add, layer_norm, gelu_mlp, add.
#include "baselines/blocks/audio/whisper_part.hpp"

namespace fk {
namespace {

void expand_whisper_encoder_layer(Builder& b, const Region& r) {
  const Value normed = whisper_norm(b, r, ".self_attn_layer_norm", "attn", r["x"]);
  const Value attended = r.call(b, "encoder_attention", ".self_attn", {{"x", normed}});
  whisper_mlp(b, r, whisper_sum(b, r, ".self_attn.residual", r["x"], attended, Value{}));
}

FK_BLOCK(whisper_encoder_layer, expand_whisper_encoder_layer);

}  // namespace
}  // namespace fk
