// SPDX-License-Identifier: Apache-2.0
// gated_mlp as a projection, silu_and_mul, a projection.
#include "baselines/blocks/projection.hpp"

namespace fk {
namespace {

void expand_gated_mlp(Builder& b, const Region& r) {
  const Value gate_up = blocks::project(b, r, ".gate_up_proj", "gate_up", r["x"]);
  const Value activated = r.call(b, "silu_and_mul", ".act_fn",
                                 {{"size", r.integer("intermediate_size")}, {"x", gate_up}});
  blocks::project(b, r, ".down_proj", "down", activated, r["out"]);
}

FK_BLOCK(gated_mlp, expand_gated_mlp);

}  // namespace
}  // namespace fk
