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
  const Value qkv =
      r.call(b, "linear", ".qkv_proj", {{"weight", r["qkv"]}, {"bias", r["qkv_bias"]}});
  const Expr tokens = b.shape(qkv)[0];
  const auto part = [&](int64_t first, int64_t count) {
    return b.reshape(b.slice(qkv, 1, first * width, count * width), {tokens, count, width});
  };
  return {part(0, heads), part(heads, kv_heads), part(heads + kv_heads, kv_heads)};
}

void expand_self_attention(Builder& b, const Region& r) {
  const auto [q, k, v] = project(b, r);
  if (r.has("q_norm"))
    r.call(b, "qk_rms_norm", ".qk_norm",
           {{"q_weight", r["q_norm"]}, {"k_weight", r["k_norm"]}, {"q", q}, {"k", k}});
  r.call(b, "rotary_embedding", ".rotary_emb", {{"q", q}, {"k", k}});
  r.call(b, "kv_cache_append", ".kv_cache", {{"k", k}, {"v", v}});
  const bool tree = r.has("tree_mask");
  if (tree && r.integer("window") > 0)
    fail(r.path(), "tree_attention has no window", "leave one of the two out");
  if (tree && r.has("sinks"))
    fail(r.path(), "tree_attention has no sinks", "leave one of the two out");
  const Value mixed = r.call(b, tree ? "tree_attention" : "paged_attention", ".attn", {{"q", q}});
  const Dims shape = b.shape(mixed);
  r.call(b, "linear", ".o_proj",
         {{"weight", r["o"]},
          {"bias", r["o_bias"]},
          {"x", b.reshape(mixed, {shape[0], shape[1] * shape[2]})},
          {"out", r["out"]}});
}

FK_BLOCK(self_attention, expand_self_attention);

}  // namespace
}  // namespace fk
