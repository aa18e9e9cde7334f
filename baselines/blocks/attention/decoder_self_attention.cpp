// SPDX-License-Identifier: Apache-2.0
// decoder_self_attention as linear, kv_cache_append, paged_attention, linear. Queries, keys and
// values are views of the fused projection.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_decoder_self_attention(Builder& b, const Region& r) {
  const int64_t channels = r.integer("hidden_size"), heads = r.integer("num_heads");
  const int64_t width = r.integer("head_dim"), page_size = r.integer("page_size");
  const Value qkv = b.call("linear", r.path() + ".qkv_proj",
                           {{"in_features", channels},
                            {"out_features", 3 * heads * width},
                            {"weight", r["qkv"]},
                            {"bias", r["qkv_bias"]},
                            {"x", r["x"]}});
  const Expr tokens = b.shape(qkv)[0];
  const auto part = [&](int64_t index) {
    return b.reshape(b.slice(qkv, 1, index * heads * width, heads * width), {tokens, heads, width});
  };
  b.call("kv_cache_append", r.path() + ".kv_cache",
         {{"num_kv_heads", heads},
          {"head_dim", width},
          {"page_size", page_size},
          {"k", part(1)},
          {"v", part(2)},
          {"k_cache", r["k_cache"]},
          {"v_cache", r["v_cache"]},
          {"slot_mapping", r["slot_mapping"]}});
  const Value mixed = b.call("paged_attention", r.path() + ".attn",
                             {{"num_heads", heads},
                              {"num_kv_heads", heads},
                              {"head_dim", width},
                              {"page_size", page_size},
                              {"scale", r.number("scale")},
                              {"q", part(0)},
                              {"k_cache", r["k_cache"]},
                              {"v_cache", r["v_cache"]},
                              {"block_tables", r["block_tables"]},
                              {"cu_seqlens", r["cu_seqlens"]},
                              {"seq_lens", r["seq_lens"]},
                              {"max_query_len", r.scalar("max_query_len")},
                              {"max_seq_len", r.scalar("max_seq_len")}});
  b.call("linear", r.path() + ".out_proj",
         {{"in_features", heads * width},
          {"out_features", channels},
          {"weight", r["o"]},
          {"bias", r["o_bias"]},
          {"x", b.reshape(mixed, {tokens, heads * width})},
          {"out", r["out"]}});
}

FK_BLOCK(decoder_self_attention, expand_decoder_self_attention);

}  // namespace
}  // namespace fk
