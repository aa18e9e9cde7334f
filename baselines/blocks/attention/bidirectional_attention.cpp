// SPDX-License-Identifier: Apache-2.0
// bidirectional_attention as linear, rotary_embedding, attention_varlen, linear. Queries, keys and
// values are views of the fused projection.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_bidirectional_attention(Builder& b, const Region& r) {
  const int64_t channels = r.integer("hidden_size"), heads = r.integer("num_heads");
  const int64_t kv_heads = r.integer("num_kv_heads"), width = r.integer("head_dim");
  const Value qkv = b.call("linear", r.path() + ".qkv_proj",
                           {{"in_features", channels},
                            {"out_features", (heads + 2 * kv_heads) * width},
                            {"weight", r["qkv"]},
                            {"bias", r["qkv_bias"]},
                            {"x", r["x"]}});
  const Expr tokens = b.shape(qkv)[0];
  const auto part = [&](int64_t first, int64_t count) {
    return b.reshape(b.slice(qkv, 1, first * width, count * width), {tokens, count, width});
  };
  const Value q = part(0, heads), k = part(heads, kv_heads);
  b.call("rotary_embedding", r.path() + ".rotary_emb",
         {{"num_heads", heads},
          {"num_kv_heads", kv_heads},
          {"head_dim", width},
          {"rotary_dim", r.integer("rotary_dim")},
          {"max_position", r.integer("max_position")},
          {"interleaved", false},
          {"cos_sin_cache", r["cos_sin_cache"]},
          {"positions", r["positions"]},
          {"q", q},
          {"k", k}});
  const Value mixed = b.call("attention_varlen", r.path() + ".attn",
                             {{"num_heads", heads},
                              {"num_kv_heads", kv_heads},
                              {"head_dim", width},
                              {"scale", r.number("scale")},
                              {"causal", false},
                              {"q", q},
                              {"k", k},
                              {"v", part(heads + kv_heads, kv_heads)},
                              {"cu_seqlens_q", r["cu_seqlens"]},
                              {"cu_seqlens_k", r["cu_seqlens"]},
                              {"max_query_len", r.scalar("max_seqlen")},
                              {"max_key_len", r.scalar("max_seqlen")}});
  b.call("linear", r.path() + ".o_proj",
         {{"in_features", heads * width},
          {"out_features", channels},
          {"weight", r["o"]},
          {"x", b.reshape(mixed, {tokens, heads * width})},
          {"out", r["out"]}});
}

FK_BLOCK(bidirectional_attention, expand_bidirectional_attention);

}  // namespace
}  // namespace fk
