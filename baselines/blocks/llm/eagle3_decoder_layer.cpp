// SPDX-License-Identifier: Apache-2.0
// eagle3_decoder_layer as two rms_norm, concat, linear, rotary_embedding, kv_cache_append,
// paged_attention (tree_attention with a tree), linear, rms_norm, gated_mlp.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

// Attention's result for the concatenated input.
Value attend(Builder& b, const Region& r, Value x) {
  const int64_t heads = r.integer("num_heads"), kv_heads = r.integer("num_kv_heads");
  const int64_t width = r.integer("head_dim");
  const Value qkv = r.call(b, "linear", ".self_attn.qkv_proj",
                           {{"weight", r["qkv"]}, {"bias", r["qkv_bias"]}, {"x", x}});
  const Expr tokens = b.shape(qkv)[0];
  const auto part = [&](int64_t first, int64_t count) {
    return b.reshape(b.slice(qkv, 1, first * width, count * width), {tokens, count, width});
  };
  const Value q = part(0, heads), k = part(heads, kv_heads), v = part(heads + kv_heads, kv_heads);
  r.call(b, "rotary_embedding", ".self_attn.rotary_emb", {{"q", q}, {"k", k}});
  r.call(b, "kv_cache_append", ".self_attn.kv_cache", {{"k", k}, {"v", v}});
  const Value mixed = r.call(b, r.has("tree_mask") ? "tree_attention" : "paged_attention",
                             ".self_attn.attn", {{"q", q}});
  return r.call(b, "linear", ".self_attn.o_proj",
                {{"weight", r["o"]}, {"x", b.reshape(mixed, {tokens, heads * width})}});
}

void expand_eagle3_decoder_layer(Builder& b, const Region& r) {
  const auto norm = [&](const char* path, const char* weight, Value x) -> Value {
    return r.call(b, "rms_norm", path, {{"weight", r[weight]}, {"x", x}});
  };
  const Value hidden = r["hidden"];
  const Value both =
      b.call("concat", r.path() + ".concat",
             {{"num_parts", 2},
              {"size", r.integer("hidden_size")},
              {"x", std::vector<Value>{norm(".input_layernorm", "input_norm", r["embeds"]),
                                       norm(".hidden_norm", "hidden_norm", hidden)}}});
  const Value x =
      r.call(b, "rms_norm", ".post_attention_layernorm",
             {{"weight", r["post_norm"]}, {"x", attend(b, r, both)}, {"residual", hidden}});
  r.call(b, "gated_mlp", ".mlp", {{"x", x}, {"out", r["out"]}});
}

FK_BLOCK(eagle3_decoder_layer, expand_eagle3_decoder_layer);

}  // namespace
}  // namespace fk
