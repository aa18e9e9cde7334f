// SPDX-License-Identifier: Apache-2.0
// mla_self_attention as one projection to all latents, their norms and rotation in place, the
// cache, attention, and the value's up-projection. Attention is between the latents and a query
// which has absorbed the key's up-projection. Path names follow transformers and vLLM.
#include "baselines/blocks/projection.hpp"

namespace fk {
namespace {

struct Parts {
  Value q, kv_c, k_pe;  // [T,H,DN+R], [T,CK], [T,R]
};

Parts project_all(Builder& b, const Region& r) {
  const int64_t heads = r.integer("num_heads"), rotary = r.integer("qk_rope_head_dim");
  const int64_t q_rank = r.integer("q_lora_rank"), kv_rank = r.integer("kv_lora_rank");
  const Value all = blocks::project(b, r, ".fused_qkv_a_proj", "qkv_a", r["x"]);
  const Value q_c = q_rank > 0 ? b.slice(all, 1, 0, q_rank) : Value{};
  const Value kv_c = b.slice(all, 1, q_rank, kv_rank);
  r.call(b, "q_kv_rms_norm", ".kv_a_layernorm",
         {{"q_weight", r["q_a_norm"]}, {"kv_weight", r["kv_a_norm"]}, {"q", q_c}, {"kv", kv_c}});
  const Value q = blocks::project(b, r, ".q_b_proj", "q_b", q_rank > 0 ? q_c : r["x"]);
  const int64_t width = r.integer("qk_nope_head_dim") + rotary;
  return {b.reshape(q, {b.shape(q)[0], heads, width}), kv_c,
          b.slice(all, 1, q_rank + kv_rank, rotary)};
}

void expand_mla_self_attention(Builder& b, const Region& r) {
  const int64_t nope = r.integer("qk_nope_head_dim"), rotary = r.integer("qk_rope_head_dim");
  const auto [q, kv_c, k_pe] = project_all(b, r);
  const Value q_pe = b.slice(q, 2, nope, rotary);
  r.call(b, "rotary_embedding", ".rotary_emb",
         {{"q", q_pe}, {"k", b.reshape(k_pe, {b.shape(k_pe)[0], 1, rotary})}});
  r.call(b, "mla_cache_append", ".kv_cache", {{"kv_c", kv_c}, {"k_pe", k_pe}});
  const Value q_latent =
      r.call(b, "batched_linear", ".w_uk", {{"weight", r["w_uk"]}, {"x", b.slice(q, 2, 0, nope)}});
  const Value mixed =
      r.call(b, "mla_attention", ".mla_attn", {{"q_latent", q_latent}, {"q_pe", q_pe}});
  const Value v = r.call(b, "batched_linear", ".w_uv", {{"weight", r["w_uv"]}, {"x", mixed}});
  const Dims shape = b.shape(v);
  blocks::project(b, r, ".o_proj", "o", b.reshape(v, {shape[0], shape[1] * shape[2]}), r["out"]);
}

FK_BLOCK(mla_self_attention, expand_mla_self_attention);

}  // namespace
}  // namespace fk
