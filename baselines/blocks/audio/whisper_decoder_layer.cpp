// SPDX-License-Identifier: Apache-2.0
// whisper_decoder_layer as layer_norm, decoder_self_attention, add, layer_norm, cross_attention,
// add, layer_norm, gelu_mlp, add.
#include "baselines/blocks/audio/whisper_part.hpp"

namespace fk {
namespace {

void expand_whisper_decoder_layer(Builder& b, const Region& r) {
  const Value own = r.call(b, "decoder_self_attention", ".self_attn",
                           {{"x", whisper_norm(b, r, ".self_attn_layer_norm", "attn", r["x"])}});
  const Value y = whisper_sum(b, r, ".self_attn.residual", r["x"], own, Value{});
  const Value heard = r.call(b, "cross_attention", ".encoder_attn",
                             {{"q", r["cross_q"]},
                              {"q_bias", r["cross_q_bias"]},
                              {"o", r["cross_o"]},
                              {"o_bias", r["cross_o_bias"]},
                              {"x", whisper_norm(b, r, ".encoder_attn_layer_norm", "cross", y)}});
  whisper_mlp(b, r, whisper_sum(b, r, ".encoder_attn.residual", y, heard, Value{}));
}

FK_BLOCK(whisper_decoder_layer, expand_whisper_decoder_layer);

}  // namespace
}  // namespace fk
