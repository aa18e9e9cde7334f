// SPDX-License-Identifier: Apache-2.0
// whisper_decoder_layer as layer_norm, decoder_self_attention, add, layer_norm, cross_attention,
// add, layer_norm, gelu_mlp, add.
#include "baselines/blocks/audio/whisper_part.hpp"

namespace fk {
namespace {

Value self_attention(Builder& b, const Region& r, Value x) {
  return b.call("decoder_self_attention", r.path() + ".self_attn",
                {{"hidden_size", r.integer("hidden_size")},
                 {"num_heads", r.integer("num_heads")},
                 {"head_dim", r.integer("head_dim")},
                 {"page_size", r.integer("page_size")},
                 {"scale", r.number("scale")},
                 {"qkv", r["qkv"]},
                 {"qkv_bias", r["qkv_bias"]},
                 {"o", r["o"]},
                 {"o_bias", r["o_bias"]},
                 {"x", x},
                 {"k_cache", r["k_cache"]},
                 {"v_cache", r["v_cache"]},
                 {"block_tables", r["block_tables"]},
                 {"cu_seqlens", r["cu_seqlens"]},
                 {"seq_lens", r["seq_lens"]},
                 {"slot_mapping", r["slot_mapping"]},
                 {"max_query_len", r.scalar("max_query_len")},
                 {"max_seq_len", r.scalar("max_seq_len")}});
}

Value cross_attention(Builder& b, const Region& r, Value x) {
  return b.call("cross_attention", r.path() + ".encoder_attn",
                {{"hidden_size", r.integer("hidden_size")},
                 {"num_heads", r.integer("num_heads")},
                 {"head_dim", r.integer("head_dim")},
                 {"source_len", r.integer("source_len")},
                 {"scale", r.number("scale")},
                 {"q", r["cross_q"]},
                 {"q_bias", r["cross_q_bias"]},
                 {"o", r["cross_o"]},
                 {"o_bias", r["cross_o_bias"]},
                 {"x", x},
                 {"source_k", r["source_k"]},
                 {"source_v", r["source_v"]},
                 {"state_slots", r["state_slots"]},
                 {"source_lens", r["source_lens"]},
                 {"cu_seqlens", r["cu_seqlens"]},
                 {"max_query_len", r.scalar("max_query_len")}});
}

void expand_whisper_decoder_layer(Builder& b, const Region& r) {
  const Value x = r["x"];
  const Value own = self_attention(b, r, whisper_norm(b, r, ".self_attn_layer_norm", "attn", x));
  const Value y = whisper_sum(b, r, ".self_attn.residual", x, own, Value{});
  const Value heard =
      cross_attention(b, r, whisper_norm(b, r, ".encoder_attn_layer_norm", "cross", y));
  whisper_mlp(b, r, whisper_sum(b, r, ".encoder_attn.residual", y, heard, Value{}));
}

FK_BLOCK(whisper_decoder_layer, expand_whisper_decoder_layer);

}  // namespace
}  // namespace fk
