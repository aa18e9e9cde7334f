// SPDX-License-Identifier: Apache-2.0
// whisper_encoder_layer as layer_norm, encoder_attention, add, layer_norm, gelu_mlp, add.
#include "baselines/blocks/audio/whisper_part.hpp"

namespace fk {
namespace {

void expand_whisper_encoder_layer(Builder& b, const Region& r) {
  const Value attended = b.call("encoder_attention", r.path() + ".self_attn",
                                {{"hidden_size", r.integer("hidden_size")},
                                 {"num_heads", r.integer("num_heads")},
                                 {"head_dim", r.integer("head_dim")},
                                 {"scale", r.number("scale")},
                                 {"qkv", r["qkv"]},
                                 {"qkv_bias", r["qkv_bias"]},
                                 {"o", r["o"]},
                                 {"o_bias", r["o_bias"]},
                                 {"x", whisper_norm(b, r, ".self_attn_layer_norm", "attn", r["x"])},
                                 {"cu_seqlens", r["cu_seqlens"]},
                                 {"max_seqlen", r.scalar("max_seqlen")}});
  whisper_mlp(b, r, whisper_sum(b, r, ".self_attn.residual", r["x"], attended, Value{}));
}

FK_BLOCK(whisper_encoder_layer, expand_whisper_encoder_layer);

}  // namespace
}  // namespace fk
