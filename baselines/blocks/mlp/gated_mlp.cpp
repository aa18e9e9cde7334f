// SPDX-License-Identifier: Apache-2.0
// gated_mlp as a projection, silu_and_mul, a projection.
#include "baselines/blocks/projection.hpp"

namespace fk {
namespace {

void expand_gated_mlp(Builder& b, const Region& r) {
  const int64_t channels = r.integer("hidden_size"), hidden = r.integer("intermediate_size");
  const Value gate_up = blocks::project(b, r, ".gate_up_proj", channels, 2 * hidden, r["gate_up"],
                                        r["gate_up_scale_inv"], r["x"]);
  const Value activated =
      b.call("silu_and_mul", r.path() + ".act_fn", {{"size", hidden}, {"x", gate_up}});
  blocks::project(b, r, ".down_proj", hidden, channels, r["down"], r["down_scale_inv"], activated,
                  r["out"]);
}

FK_BLOCK(gated_mlp, expand_gated_mlp);

}  // namespace
}  // namespace fk
