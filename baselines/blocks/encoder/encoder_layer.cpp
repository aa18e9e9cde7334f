// SPDX-License-Identifier: Apache-2.0
// encoder_layer as encoder_attention, layer_norm over the sum, gelu_mlp, layer_norm over the sum.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_encoder_layer(Builder& b, const Region& r) {
  const int64_t channels = r.integer("hidden_size");
  const auto norm = [&](const char* name, Value weight, Value bias, Value x, Value residual,
                        Value out) -> Value {
    return b.call("layer_norm", r.path() + name,
                  {{"hidden_size", channels},
                   {"eps", r.number("eps")},
                   {"weight", weight},
                   {"bias", bias},
                   {"x", x},
                   {"residual", residual},
                   {"out", out}});
  };
  const Value attended = b.call("encoder_attention", r.path() + ".attention",
                                {{"hidden_size", channels},
                                 {"num_heads", r.integer("num_heads")},
                                 {"head_dim", r.integer("head_dim")},
                                 {"scale", r.number("scale")},
                                 {"qkv", r["qkv"]},
                                 {"qkv_bias", r["qkv_bias"]},
                                 {"o", r["o"]},
                                 {"o_bias", r["o_bias"]},
                                 {"x", r["x"]},
                                 {"cu_seqlens", r["cu_seqlens"]},
                                 {"max_seqlen", r.scalar("max_seqlen")}});
  const Value middle = norm(".attention.output.LayerNorm", r["attn_norm_weight"],
                            r["attn_norm_bias"], attended, r["x"], Value{});
  const Value wide = b.call("gelu_mlp", r.path() + ".mlp",
                            {{"hidden_size", channels},
                             {"intermediate_size", r.integer("intermediate_size")},
                             {"approximate", r.choice("approximate")},
                             {"fc1", r["fc1"]},
                             {"fc1_bias", r["fc1_bias"]},
                             {"fc2", r["fc2"]},
                             {"fc2_bias", r["fc2_bias"]},
                             {"x", middle}});
  norm(".output.LayerNorm", r["mlp_norm_weight"], r["mlp_norm_bias"], wide, middle, r["out"]);
}

FK_BLOCK(encoder_layer, expand_encoder_layer);

}  // namespace
}  // namespace fk
