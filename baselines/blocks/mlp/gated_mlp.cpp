// SPDX-License-Identifier: Apache-2.0
// gated_mlp as linear, silu_and_mul, linear.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand(Builder& b, const Region& r) {
  const int64_t channels = r.integer("hidden_size"), hidden = r.integer("intermediate_size");
  const Value gate_up = b.call("linear", r.path() + ".gate_up_proj",
                               {{"in_features", channels},
                                {"out_features", 2 * hidden},
                                {"weight", r["gate_up"]},
                                {"x", r["x"]}});
  const Value activated =
      b.call("silu_and_mul", r.path() + ".act_fn", {{"size", hidden}, {"x", gate_up}});
  b.call("linear", r.path() + ".down_proj",
         {{"in_features", hidden},
          {"out_features", channels},
          {"weight", r["down"]},
          {"x", activated},
          {"out", r["out"]}});
}

FK_BLOCK(gated_mlp, expand);

}  // namespace
}  // namespace fk
