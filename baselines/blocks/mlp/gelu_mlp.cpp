// SPDX-License-Identifier: Apache-2.0
// gelu_mlp as linear, gelu, linear.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_gelu_mlp(Builder& b, const Region& r) {
  const Value wide = r.call(b, "linear", ".fc1", {{"weight", r["fc1"]}, {"bias", r["fc1_bias"]}});
  const Value activated = r.call(b, "gelu", ".act_fn", {{"x", wide}});
  r.call(b, "linear", ".fc2",
         {{"weight", r["fc2"]}, {"bias", r["fc2_bias"]}, {"x", activated}, {"out", r["out"]}});
}

FK_BLOCK(gelu_mlp, expand_gelu_mlp);

}  // namespace
}  // namespace fk
