// SPDX-License-Identifier: Apache-2.0
// gla_attention as linear, (rotary_embedding), gated_linear_attention, rms_norm_gated over the
// heads, linear. q, k and v are views of one product; the gate is a product of its own, because a
// norm over heads needs dense rows.
#include "baselines/blocks/recurrence/one_token.hpp"

namespace fk {
namespace {

Value log_decays(Builder& b, const Region& r, const Dims& heads) {
  if (!r.has("gk_a")) return {};
  const Value low = r.call(b, "linear", ".gk_proj.0", {{"weight", r["gk_a"]}, {"bias", Value{}}});
  const Value logits = r.call(b, "linear", ".gk_proj.1",
                              {{"weight", r["gk_b"]}, {"bias", r["gk_bias"]}, {"x", low}});
  const Value logs =
      r.call(b, "activation", ".log_sigmoid", {{"kind", "log_sigmoid"}, {"x", logits}});
  const Value scaled =
      r.call(b, "scaled_add", ".gk",
             {{"scale", 1 / r.number("gate_logit_normalizer")}, {"x", Value{}}, {"y", logs}});
  return b.reshape(scaled, heads);
}

void expand_gla_attention(Builder& b, const Region& r) {
  const int64_t heads = r.integer("num_heads"), width = r.integer("head_dim");
  const int64_t values = r.integer("v_head_dim");
  const Value qkv = r.call(b, "linear", ".qkv_proj", {{"weight", r["qkv"]}, {"bias", Value{}}});
  const Value z = r.call(b, "linear", ".g_proj", {{"weight", r["gate"]}, {"bias", Value{}}});
  const Expr tokens = b.shape(qkv)[0];
  const auto part = [&](int64_t first, int64_t size) {
    return b.reshape(b.slice(qkv, 1, first, heads * size), {tokens, heads, size});
  };
  const Value q = part(0, width), k = part(heads * width, width);
  const Value v = part(2 * heads * width, values);
  if (r.has("cos_sin_cache"))
    r.call(b, "rotary_embedding", ".rotary",
           {{"num_heads", heads}, {"num_kv_heads", heads}, {"q", q}, {"k", k}});
  const Value g = log_decays(b, r, {tokens, heads, width});
  const Value y = recurrent_part(b, r, "gated_linear_attention_update", "gated_linear_attention",
                                 ".attn", {{"q", q}, {"k", k}, {"v", v}, {"g", g}});
  const Dims rows{tokens * heads, values};
  const Value gated = r.call(b, "rms_norm_gated", ".g_norm",
                             {{"hidden_size", values},
                              {"group_size", values},
                              {"norm_before_gate", true},
                              {"weight", r["norm"]},
                              {"x", b.reshape(y, rows)},
                              {"z", b.reshape(z, rows)}});
  r.call(b, "linear", ".o_proj",
         {{"weight", r["o"]},
          {"bias", Value{}},
          {"x", b.reshape(gated, {tokens, heads * values})},
          {"out", r["out"]}});
}

FK_BLOCK(gla_attention, expand_gla_attention);

}  // namespace
}  // namespace fk
