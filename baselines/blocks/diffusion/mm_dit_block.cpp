// SPDX-License-Identifier: Apache-2.0
// mm_dit_block as joint_attention and two gelu_mlp, behind modulated norms and with gates.
#include "baselines/blocks/diffusion/dit.hpp"

namespace fk {
namespace {

void expand_mm_dit_block(Builder& b, const Region& r) {
  const Value silu = dit::silu_of_time(b, r);
  const auto of_image = dit::modulation(b, r, "modulation", ".norm1.linear", silu);
  const auto of_text = dit::modulation(b, r, "context_modulation", ".norm1_context.linear", silu);
  const Value x = dit::modulated_norm(b, r, ".norm1", of_image, 0, r["x"]);
  const Value context = dit::modulated_norm(b, r, ".norm1_context", of_text, 0, r["context"]);
  const Outputs seen = r.call(b, "joint_attention", ".attn", {{"x", x}, {"context", context}});
  const auto mlp = [&](const std::string& weights, const std::string& suffix,
                       const dit::Modulation& m, Value whole, Value part, Value out) {
    const Value sum = dit::gated_sum(b, r, ".gate" + suffix, m, 2, whole, part);
    const Value normed = dit::modulated_norm(b, r, ".norm2" + suffix, m, 3, sum);
    const Value wide = b.call("gelu_mlp", r.path() + ".ff" + suffix,
                              {{"approximate", "tanh"},
                               {"fc1", r[weights + "fc1"]},
                               {"fc1_bias", r[weights + "fc1_bias"]},
                               {"fc2", r[weights + "fc2"]},
                               {"fc2_bias", r[weights + "fc2_bias"]},
                               {"x", dit::by_rows(b, normed)}});
    dit::gated_sum(b, r, ".sum" + suffix, m, 5, sum, b.reshape(wide, b.shape(sum)), out);
  };
  mlp("", "", of_image, r["x"], seen["out"], r["out"]);
  mlp("context_", "_context", of_text, r["context"], seen["context_out"], r["context_out"]);
}

FK_BLOCK(mm_dit_block, expand_mm_dit_block);

}  // namespace
}  // namespace fk
