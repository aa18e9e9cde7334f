// SPDX-License-Identifier: Apache-2.0
// self_attention over a paged cache as linear, (qk_rms_norm), rotary_embedding, kv_cache_append,
// paged_attention (tree_attention with a tree), linear. Queries, keys and values are views of the
// fused projection.
#include "core/base/error.hpp"
#include "core/graph/builder.hpp"

namespace fk {
namespace {

struct Qkv {
  Value q, k, v;
};

Qkv project(Builder& b, const Region& r) {
  const int64_t heads = r.integer("num_heads"), kv_heads = r.integer("num_kv_heads");
  const int64_t width = r.integer("head_dim");
  const Value qkv = b.call("linear", r.path() + ".qkv_proj",
                           {{"in_features", r.integer("hidden_size")},
                            {"out_features", (heads + 2 * kv_heads) * width},
                            {"weight", r["qkv"]},
                            {"bias", r["qkv_bias"]},
                            {"x", r["x"]}});
  const Expr tokens = b.shape(qkv)[0];
  const auto part = [&](int64_t first, int64_t count) {
    return b.reshape(b.slice(qkv, 1, first * width, count * width), {tokens, count, width});
  };
  return {part(0, heads), part(heads, kv_heads), part(heads + kv_heads, kv_heads)};
}

void expand_self_attention(Builder& b, const Region& r) {
  const int64_t heads = r.integer("num_heads"), kv_heads = r.integer("num_kv_heads");
  const int64_t width = r.integer("head_dim"), page_size = r.integer("page_size");
  const auto [q, k, v] = project(b, r);
  if (r.has("q_norm")) {
    b.call("qk_rms_norm", r.path() + ".qk_norm",
           {{"num_heads", heads},
            {"num_kv_heads", kv_heads},
            {"head_dim", width},
            {"eps", r.number("eps")},
            {"q_weight", r["q_norm"]},
            {"k_weight", r["k_norm"]},
            {"q", q},
            {"k", k}});
  }
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
  b.call("kv_cache_append", r.path() + ".kv_cache",
         {{"num_kv_heads", kv_heads},
          {"head_dim", width},
          {"page_size", page_size},
          {"k", k},
          {"v", v},
          {"k_cache", r["k_cache"]},
          {"v_cache", r["v_cache"]},
          {"slot_mapping", r["slot_mapping"]}});
  Args attention{{"num_heads", heads},
                 {"num_kv_heads", kv_heads},
                 {"head_dim", width},
                 {"page_size", page_size},
                 {"scale", r.number("scale")},
                 {"q", q},
                 {"k_cache", r["k_cache"]},
                 {"v_cache", r["v_cache"]},
                 {"block_tables", r["block_tables"]},
                 {"cu_seqlens", r["cu_seqlens"]},
                 {"seq_lens", r["seq_lens"]},
                 {"max_query_len", r.scalar("max_query_len")},
                 {"max_seq_len", r.scalar("max_seq_len")}};
  const bool tree = r.has("tree_mask");
  if (tree) {
    if (r.integer("window") > 0)
      fail(r.path(), "tree_attention has no window", "leave one of the two out");
    attention.emplace_back("tree_lens", r["tree_lens"]);
    attention.emplace_back("tree_mask", r["tree_mask"]);
  } else {
    attention.emplace_back("window", r.integer("window"));
  }
  if (r.has("sinks")) {
    if (tree) fail(r.path(), "tree_attention has no sinks", "leave one of the two out");
    attention.emplace_back("sinks", r["sinks"]);
  }
  const Value mixed =
      b.call(tree ? "tree_attention" : "paged_attention", r.path() + ".attn", attention);
  b.call("linear", r.path() + ".o_proj",
         {{"in_features", heads * width},
          {"out_features", r.integer("hidden_size")},
          {"weight", r["o"]},
          {"bias", r["o_bias"]},
          {"x", b.reshape(mixed, {b.shape(mixed)[0], heads * width})},
          {"out", r["out"]}});
}

FK_BLOCK(self_attention, expand_self_attention);

}  // namespace
}  // namespace fk
