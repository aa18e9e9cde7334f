// SPDX-License-Identifier: Apache-2.0
// adapted_mlp as products of activations, because its weights are tensors of the call.
#include "baselines/blocks/gradient/products.hpp"

namespace fk {
namespace {

void expand_adapted_mlp(Builder& b, const Region& r) {
  const Value gate_up = blocks::product_nt(b, r.path() + ".gate_up_proj", r["x"], r["gate_up"]);
  const Value activated = r.call(b, "silu_and_mul", ".act_fn",
                                 {{"size", r.integer("intermediate_size")}, {"x", gate_up}});
  blocks::product_nt(b, r.path() + ".down_proj", activated, r["down"], r["out"]);
}

FK_BLOCK(adapted_mlp, expand_adapted_mlp);

}  // namespace
}  // namespace fk
