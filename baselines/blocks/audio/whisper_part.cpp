// SPDX-License-Identifier: Apache-2.0
// The common parts of both layers of Whisper, as calls of ops.
#include "baselines/blocks/audio/whisper_part.hpp"

namespace fk {

Value whisper_norm(Builder& b, const Region& r, const std::string& path, const std::string& name,
                   Value x) {
  return r.call(b, "layer_norm", path,
                {{"weight", r[name + "_norm_weight"]}, {"bias", r[name + "_norm_bias"]}, {"x", x}});
}

Value whisper_sum(Builder& b, const Region& r, const std::string& path, Value x, Value y,
                  Value out) {
  return r.call(b, "add", path, {{"a", x}, {"b", y}, {"out", out}});
}

void whisper_mlp(Builder& b, const Region& r, Value x) {
  const Value normed = whisper_norm(b, r, ".final_layer_norm", "mlp", x);
  whisper_sum(b, r, ".mlp.residual", x, r.call(b, "gelu_mlp", ".mlp", {{"x", normed}}), r["out"]);
}

}  // namespace fk
