// SPDX-License-Identifier: Apache-2.0
// cross_attention as linear, paged_attention, linear: a slot is a page that holds a whole source.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_cross_attention(Builder& b, const Region& r) {
  const int64_t channels = r.integer("hidden_size"), heads = r.integer("num_heads");
  const int64_t width = r.integer("head_dim"), source = r.integer("source_len");
  const Value q = b.call("linear", r.path() + ".q_proj",
                         {{"in_features", channels},
                          {"out_features", heads * width},
                          {"weight", r["q"]},
                          {"bias", r["q_bias"]},
                          {"x", r["x"]}});
  const Expr tokens = b.shape(q)[0], requests = b.shape(r["state_slots"])[0];
  const Value mixed = b.call("paged_attention", r.path() + ".attn",
                             {{"num_heads", heads},
                              {"num_kv_heads", heads},
                              {"head_dim", width},
                              {"page_size", source},
                              {"scale", r.number("scale")},
                              {"causal", false},
                              {"q", b.reshape(q, {tokens, heads, width})},
                              {"k_cache", r["source_k"]},
                              {"v_cache", r["source_v"]},
                              {"block_tables", b.reshape(r["state_slots"], {requests, 1})},
                              {"cu_seqlens", r["cu_seqlens"]},
                              {"seq_lens", r["source_lens"]},
                              {"max_query_len", r.scalar("max_query_len")},
                              {"max_seq_len", Expr(source)}});
  b.call("linear", r.path() + ".out_proj",
         {{"in_features", heads * width},
          {"out_features", channels},
          {"weight", r["o"]},
          {"bias", r["o_bias"]},
          {"x", b.reshape(mixed, {tokens, heads * width})},
          {"out", r["out"]}});
}

FK_BLOCK(cross_attention, expand_cross_attention);

}  // namespace
}  // namespace fk
