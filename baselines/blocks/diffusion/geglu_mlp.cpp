// SPDX-License-Identifier: Apache-2.0
// geglu_mlp as linear, activation_and_mul, linear.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_geglu_mlp(Builder& b, const Region& r) {
  const Value wide =
      r.call(b, "linear", ".net.0.proj", {{"weight", r["fc1"]}, {"bias", r["fc1_bias"]}});
  const Value activated = r.call(b, "activation_and_mul", ".net.0.gelu",
                                 {{"size", r.integer("intermediate_size")}, {"x", wide}});
  r.call(b, "linear", ".net.2",
         {{"weight", r["fc2"]}, {"bias", r["fc2_bias"]}, {"x", activated}, {"out", r["out"]}});
}

FK_BLOCK(geglu_mlp, expand_geglu_mlp);

}  // namespace
}  // namespace fk
