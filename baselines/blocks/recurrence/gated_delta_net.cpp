// SPDX-License-Identifier: Apache-2.0
// gated_delta_net as linear, causal convolution, delta_gate, gated_delta_rule, rms_norm_gated over
// the heads, linear. If every request has one token and a state, convolution and rule have their
// one-token forms. q, k and v are views of one product.
#include "baselines/blocks/recurrence/one_token.hpp"

namespace fk {
namespace {

Value delta_product(Builder& b, const Region& r, const std::string& path, const char* weight,
                    Value x) {
  Args args{{"weight", r[weight]}, {"bias", Value{}}};
  if (x) args.emplace_back("x", x);
  return r.call(b, "linear", path, std::move(args));
}

void expand_gated_delta_net(Builder& b, const Region& r) {
  const int64_t heads = r.integer("num_heads"), key_heads = r.integer("num_k_heads");
  const int64_t width = r.integer("head_dim"), values = r.integer("v_head_dim");
  const bool low_rank = r.has("decay_down");
  const Value qkv =
      recurrent_part(b, r, "causal_conv1d_update", "causal_conv1d", ".conv1d",
                     {{"weight", r["conv"]}, {"x", delta_product(b, r, ".qkv_proj", "qkv", {})}});
  const Expr tokens = b.shape(qkv)[0];
  const auto part = [&](int64_t first, int64_t count, int64_t size) {
    return b.reshape(b.slice(qkv, 1, first, count * size), {tokens, count, size});
  };
  const auto down = [&](const char* path, const char* weight) {
    return low_rank ? delta_product(b, r, path, weight, {}) : Value{};
  };
  const Value decay = delta_product(b, r, ".f_b_proj", "decay", down(".f_a_proj", "decay_down"));
  const Outputs gates = r.call(b, "delta_gate", ".gates",
                               {{"x", b.reshape(decay, {tokens, heads, r.integer("gate_dim")})},
                                {"b", delta_product(b, r, ".b_proj", "beta", {})}});
  const Value y = recurrent_part(b, r, "gated_delta_rule_update", "gated_delta_rule", ".rule",
                                 {{"q", part(0, key_heads, width)},
                                  {"k", part(key_heads * width, key_heads, width)},
                                  {"v", part(2 * key_heads * width, heads, values)},
                                  {"g", gates["g"]},
                                  {"beta", gates["beta"]}});
  const Value gate = delta_product(b, r, ".g_b_proj", "gate", down(".g_a_proj", "gate_down"));
  const Dims rows{tokens * heads, values};
  const Value gated = r.call(b, "rms_norm_gated", ".o_norm",
                             {{"hidden_size", values},
                              {"group_size", values},
                              {"norm_before_gate", true},
                              {"activation", r.choice("gate_activation")},
                              {"weight", r["norm"]},
                              {"x", b.reshape(y, rows)},
                              {"z", b.reshape(gate, rows)}});
  r.call(b, "linear", ".o_proj",
         {{"weight", r["out_proj"]},
          {"bias", Value{}},
          {"x", b.reshape(gated, {tokens, heads * values})},
          {"out", r["out"]}});
}

FK_BLOCK(gated_delta_net, expand_gated_delta_net);

}  // namespace
}  // namespace fk
