// SPDX-License-Identifier: Apache-2.0
// adapted_mlp_backward as the forward pass up to the second product, then gradients from the last
// product to the first.
#include "baselines/blocks/gradient/products.hpp"

namespace fk {
namespace {

void expand_adapted_mlp_backward(Builder& b, const Region& r) {
  const int64_t width = r.integer("intermediate_size");
  const Value gate_up = blocks::product_nt(b, r.path() + ".gate_up_proj", r["x"], r["gate_up"]);
  const Value activated = r.call(b, "silu_and_mul", ".act_fn", {{"size", width}, {"x", gate_up}});
  b.call("linear_weight_grad", r.path() + ".down_proj.grad",
         {{"x", activated}, {"grad", r["grad"]}, {"out", r["down_grad"]}});
  const Value inner = b.empty(b.dtype(r["x"]), {b.shape(r["x"])[0], width});
  b.call("linear_input_grad", r.path() + ".down_proj.input_grad",
         {{"grad", r["grad"]}, {"weight", r["down"]}, {"out", inner}});
  const Value both = b.call("silu_and_mul_backward", r.path() + ".act_fn.grad",
                            {{"size", width}, {"x", gate_up}, {"grad", inner}});
  b.call("linear_weight_grad", r.path() + ".gate_up_proj.grad",
         {{"x", r["x"]}, {"grad", both}, {"out", r["gate_up_grad"]}});
  b.call("linear_input_grad", r.path() + ".gate_up_proj.input_grad",
         {{"grad", both}, {"weight", r["gate_up"]}, {"out", r["out"]}});
}

FK_BLOCK(adapted_mlp_backward, expand_adapted_mlp_backward);

}  // namespace
}  // namespace fk
