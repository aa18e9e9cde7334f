// SPDX-License-Identifier: Apache-2.0
// eagle3_decoder_layer as two rms_norm, concat, linear, rotary_embedding, kv_cache_append,
// paged_attention (tree_attention with a tree), linear, rms_norm, gated_mlp.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

// What attention gives for the concatenated input.
Value attend(Builder& b, const Region& r, Value x) {
  const int64_t heads = r.integer("num_heads"), kv_heads = r.integer("num_kv_heads");
  const int64_t width = r.integer("head_dim"), page_size = r.integer("page_size");
  const Value qkv = b.call("linear", r.path() + ".self_attn.qkv_proj",
                           {{"in_features", 2 * r.integer("hidden_size")},
                            {"out_features", (heads + 2 * kv_heads) * width},
                            {"weight", r["qkv"]},
                            {"bias", r["qkv_bias"]},
                            {"x", x}});
  const Expr tokens = b.shape(qkv)[0];
  const auto part = [&](int64_t first, int64_t count) {
    return b.reshape(b.slice(qkv, 1, first * width, count * width), {tokens, count, width});
  };
  const Value q = part(0, heads), k = part(heads, kv_heads), v = part(heads + kv_heads, kv_heads);
  const Args sizes{{"num_kv_heads", kv_heads}, {"head_dim", width}};
  const auto call = [&](const char* op, const char* path, Args args) -> Outputs {
    args.insert(args.end(), sizes.begin(), sizes.end());
    return b.call(op, r.path() + ".self_attn" + path, args);
  };
  call("rotary_embedding", ".rotary_emb",
       {{"num_heads", heads},
        {"rotary_dim", r.integer("rotary_dim")},
        {"max_position", r.integer("max_position")},
        {"interleaved", false},
        {"cos_sin_cache", r["cos_sin_cache"]},
        {"positions", r["positions"]},
        {"q", q},
        {"k", k}});
  call("kv_cache_append", ".kv_cache",
       {{"page_size", page_size},
        {"k", k},
        {"v", v},
        {"k_cache", r["k_cache"]},
        {"v_cache", r["v_cache"]},
        {"slot_mapping", r["slot_mapping"]}});
  Args args{{"num_heads", heads}, {"page_size", page_size}, {"scale", r.number("scale")}, {"q", q}};
  for (const char* name : {"k_cache", "v_cache", "block_tables", "cu_seqlens", "seq_lens"})
    args.emplace_back(name, r[name]);
  for (const char* name : {"max_query_len", "max_seq_len"}) args.emplace_back(name, r.scalar(name));
  const bool tree = r.has("tree_mask");
  if (tree)
    for (const char* name : {"tree_lens", "tree_mask"}) args.emplace_back(name, r[name]);
  const Value mixed = call(tree ? "tree_attention" : "paged_attention", ".attn", std::move(args));
  return b.call("linear", r.path() + ".self_attn.o_proj",
                {{"in_features", heads * width},
                 {"out_features", r.integer("hidden_size")},
                 {"weight", r["o"]},
                 {"x", b.reshape(mixed, {tokens, heads * width})}});
}

void expand_eagle3_decoder_layer(Builder& b, const Region& r) {
  const int64_t channels = r.integer("hidden_size");
  const auto norm = [&](const char* name, Value weight, Value x, Value residual) -> Value {
    return b.call("rms_norm", r.path() + name,
                  {{"hidden_size", channels},
                   {"eps", r.number("eps")},
                   {"weight", weight},
                   {"x", x},
                   {"residual", residual}});
  };
  const Value hidden = r["hidden"];
  const Value both = b.call(
      "concat", r.path() + ".concat",
      {{"num_parts", 2},
       {"size", channels},
       {"x", std::vector<Value>{norm(".input_layernorm", r["input_norm"], r["embeds"], Value{}),
                                norm(".hidden_norm", r["hidden_norm"], hidden, Value{})}}});
  const Value x = norm(".post_attention_layernorm", r["post_norm"], attend(b, r, both), hidden);
  b.call("gated_mlp", r.path() + ".mlp",
         {{"hidden_size", channels},
          {"intermediate_size", r.integer("intermediate_size")},
          {"gate_up", r["gate_up"]},
          {"down", r["down"]},
          {"x", x},
          {"out", r["out"]}});
}

FK_BLOCK(eagle3_decoder_layer, expand_eagle3_decoder_layer);

}  // namespace
}  // namespace fk
