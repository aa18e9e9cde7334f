// SPDX-License-Identifier: Apache-2.0
// encoder_attention (bidirectional, ragged batch) as linear, attention_varlen, linear.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_encoder_attention(Builder& b, const Region& r) {
  const int64_t heads = r.integer("num_heads"), width = r.integer("head_dim");
  const Value qkv =
      r.call(b, "linear", ".self.qkv", {{"weight", r["qkv"]}, {"bias", r["qkv_bias"]}});
  const Expr tokens = b.shape(qkv)[0];
  const auto part = [&](int64_t index) {
    return b.reshape(b.slice(qkv, 1, index * heads * width, heads * width), {tokens, heads, width});
  };
  const Value mixed = r.call(b, "attention_varlen", ".self.attn",
                             {{"causal", false},
                              {"q", part(0)},
                              {"k", part(1)},
                              {"v", part(2)},
                              {"cu_seqlens_q", r["cu_seqlens"]},
                              {"cu_seqlens_k", r["cu_seqlens"]},
                              {"max_query_len", r.scalar("max_seqlen")},
                              {"max_key_len", r.scalar("max_seqlen")}});
  r.call(b, "linear", ".output.dense",
         {{"weight", r["o"]},
          {"bias", r["o_bias"]},
          {"x", b.reshape(mixed, {tokens, heads * width})},
          {"out", r["out"]}});
}

FK_BLOCK(encoder_attention, expand_encoder_attention);

}  // namespace
}  // namespace fk
