// SPDX-License-Identifier: Apache-2.0
// bidirectional_attention as linear, rotary_embedding, attention_varlen, linear. Queries, keys and
// values are views of the fused projection.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_bidirectional_attention(Builder& b, const Region& r) {
  const int64_t heads = r.integer("num_heads"), kv_heads = r.integer("num_kv_heads");
  const int64_t width = r.integer("head_dim");
  const Value qkv =
      r.call(b, "linear", ".qkv_proj", {{"weight", r["qkv"]}, {"bias", r["qkv_bias"]}});
  const Expr tokens = b.shape(qkv)[0];
  const auto part = [&](int64_t first, int64_t count) {
    return b.reshape(b.slice(qkv, 1, first * width, count * width), {tokens, count, width});
  };
  const Value q = part(0, heads), k = part(heads, kv_heads);
  r.call(b, "rotary_embedding", ".rotary_emb", {{"q", q}, {"k", k}});
  const Value mixed = r.call(b, "attention_varlen", ".attn",
                             {{"causal", false},
                              {"q", q},
                              {"k", k},
                              {"v", part(heads + kv_heads, kv_heads)},
                              {"cu_seqlens_q", r["cu_seqlens"]},
                              {"cu_seqlens_k", r["cu_seqlens"]},
                              {"max_query_len", r.scalar("max_seqlen")},
                              {"max_key_len", r.scalar("max_seqlen")}});
  r.call(b, "linear", ".o_proj",
         {{"weight", r["o"]}, {"x", b.reshape(mixed, {tokens, heads * width})}, {"out", r["out"]}});
}

FK_BLOCK(bidirectional_attention, expand_bidirectional_attention);

}  // namespace
}  // namespace fk
