// SPDX-License-Identifier: Apache-2.0
// encoder_layer as encoder_attention, layer_norm over the sum, gelu_mlp, layer_norm over the sum.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_encoder_layer(Builder& b, const Region& r) {
  const auto norm = [&](const char* path, const std::string& name, Value x, Value residual,
                        Value out) -> Value {
    return r.call(b, "layer_norm", path,
                  {{"weight", r[name + "_norm_weight"]},
                   {"bias", r[name + "_norm_bias"]},
                   {"x", x},
                   {"residual", residual},
                   {"out", out}});
  };
  const Value attended = r.call(b, "encoder_attention", ".attention", {});
  const Value middle = norm(".attention.output.LayerNorm", "attn", attended, r["x"], Value{});
  const Value wide = r.call(b, "gelu_mlp", ".mlp", {{"x", middle}});
  norm(".output.LayerNorm", "mlp", wide, middle, r["out"]);
}

FK_BLOCK(encoder_layer, expand_encoder_layer);

}  // namespace
}  // namespace fk
