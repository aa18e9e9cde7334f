// SPDX-License-Identifier: Apache-2.0
#include "baselines/blocks/audio/whisper_part.hpp"

namespace fk {

Value whisper_norm(Builder& b, const Region& r, const std::string& path, const std::string& name,
                   Value x) {
  return b.call("layer_norm", r.path() + path,
                {{"hidden_size", r.integer("hidden_size")},
                 {"eps", r.number("eps")},
                 {"weight", r[name + "_norm_weight"]},
                 {"bias", r[name + "_norm_bias"]},
                 {"x", x}});
}

Value whisper_sum(Builder& b, const Region& r, const std::string& path, Value x, Value y,
                  Value out) {
  return b.call("add", r.path() + path,
                {{"size", r.integer("hidden_size")}, {"a", x}, {"b", y}, {"out", out}});
}

void whisper_mlp(Builder& b, const Region& r, Value x) {
  const Value y = b.call("gelu_mlp", r.path() + ".mlp",
                         {{"hidden_size", r.integer("hidden_size")},
                          {"intermediate_size", r.integer("intermediate_size")},
                          {"approximate", r.choice("approximate")},
                          {"fc1", r["fc1"]},
                          {"fc1_bias", r["fc1_bias"]},
                          {"fc2", r["fc2"]},
                          {"fc2_bias", r["fc2_bias"]},
                          {"x", whisper_norm(b, r, ".final_layer_norm", "mlp", x)}});
  whisper_sum(b, r, ".mlp.residual", x, y, r["out"]);
}

}  // namespace fk
