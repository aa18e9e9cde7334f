// SPDX-License-Identifier: Apache-2.0
// mla_self_attention as one projection to all latents, their norms and rotation in place, the
// cache, attention between a query that has absorbed the key's up-projection and the latents, the
// value's up-projection after it. The path names are those of transformers and vLLM.
#include "baselines/blocks/projection.hpp"

namespace fk {
namespace {

struct Parts {
  Value q, kv_c, k_pe;  // [T,H,DN+R], [T,CK], [T,R]
};

Parts project_all(Builder& b, const Region& r) {
  const int64_t channels = r.integer("hidden_size"), heads = r.integer("num_heads");
  const int64_t q_rank = r.integer("q_lora_rank"), kv_rank = r.integer("kv_lora_rank");
  const int64_t rotary = r.integer("qk_rope_head_dim"),
                width = r.integer("qk_nope_head_dim") + rotary;
  const Value all = blocks::project(b, r, ".fused_qkv_a_proj", channels, q_rank + kv_rank + rotary,
                                    r["qkv_a"], r["qkv_a_scale_inv"], r["x"]);
  const Value q_c = q_rank > 0 ? b.slice(all, 1, 0, q_rank) : Value{};
  const Value kv_c = b.slice(all, 1, q_rank, kv_rank);
  b.call("q_kv_rms_norm", r.path() + ".kv_a_layernorm",
         {{"q_lora_rank", q_rank},
          {"kv_lora_rank", kv_rank},
          {"eps", r.number("eps")},
          {"q_weight", r["q_a_norm"]},
          {"kv_weight", r["kv_a_norm"]},
          {"q", q_c},
          {"kv", kv_c}});
  const Value q = blocks::project(b, r, ".q_b_proj", q_rank > 0 ? q_rank : channels, heads * width,
                                  r["q_b"], r["q_b_scale_inv"], q_rank > 0 ? q_c : r["x"]);
  return {b.reshape(q, {b.shape(q)[0], heads, width}), kv_c,
          b.slice(all, 1, q_rank + kv_rank, rotary)};
}

void rotate_and_store(Builder& b, const Region& r, const Parts& parts) {
  const int64_t rotary = r.integer("qk_rope_head_dim");
  Args args = {{"num_heads", r.integer("num_heads")},
               {"num_kv_heads", 1},
               {"head_dim", rotary},
               {"rotary_dim", rotary},
               {"q", b.slice(parts.q, 2, r.integer("qk_nope_head_dim"), rotary)},
               {"k", b.reshape(parts.k_pe, {b.shape(parts.k_pe)[0], 1, rotary})}};
  blocks::pass_integers(args, r, {"max_position", "interleaved"});
  blocks::pass_tensors(args, r, {"cos_sin_cache", "positions"});
  b.call("rotary_embedding", r.path() + ".rotary_emb", args);
  Args store = {{"kv_c", parts.kv_c}, {"k_pe", parts.k_pe}};
  blocks::pass_integers(store, r, {"kv_lora_rank", "qk_rope_head_dim", "page_size"});
  blocks::pass_tensors(store, r, {"kv_cache", "slot_mapping"});
  b.call("mla_cache_append", r.path() + ".kv_cache", store);
}

void expand_mla_self_attention(Builder& b, const Region& r) {
  const int64_t heads = r.integer("num_heads"), latent = r.integer("kv_lora_rank");
  const int64_t nope = r.integer("qk_nope_head_dim"), values = r.integer("v_head_dim");
  const Parts parts = project_all(b, r);
  rotate_and_store(b, r, parts);
  const auto by_head = [&](const char* name, int64_t in, int64_t out, Value weight,
                           Value x) -> Value {
    return b.call("batched_linear", r.path() + name,
                  {{"num_heads", heads},
                   {"in_features", in},
                   {"out_features", out},
                   {"weight", weight},
                   {"x", x}});
  };
  const Value q_latent = by_head(".w_uk", nope, latent, r["w_uk"], b.slice(parts.q, 2, 0, nope));
  Args args = {{"scale", r.number("scale")},
               {"q_latent", q_latent},
               {"q_pe", b.slice(parts.q, 2, nope, r.integer("qk_rope_head_dim"))},
               {"max_query_len", r.scalar("max_query_len")},
               {"max_seq_len", r.scalar("max_seq_len")}};
  blocks::pass_integers(args, r, {"num_heads", "kv_lora_rank", "qk_rope_head_dim", "page_size"});
  blocks::pass_tensors(args, r, {"kv_cache", "block_tables", "cu_seqlens", "seq_lens"});
  const Value mixed = b.call("mla_attention", r.path() + ".mla_attn", args);
  const Value v = by_head(".w_uv", latent, values, r["w_uv"], mixed);
  blocks::project(b, r, ".o_proj", heads * values, r.integer("hidden_size"), r["o"],
                  r["o_scale_inv"], b.reshape(v, {b.shape(v)[0], heads * values}), r["out"]);
}

FK_BLOCK(mla_self_attention, expand_mla_self_attention);

}  // namespace
}  // namespace fk
