// SPDX-License-Identifier: Apache-2.0
// dit_block: attention and gelu_mlp, each behind a modulated norm and with a gate.
#include "baselines/blocks/diffusion/dit.hpp"

namespace fk {
namespace {

void expand_dit_block(Builder& b, const Region& r) {
  const auto m =
      dit::modulation(b, r, "modulation", ".adaLN_modulation.1", dit::silu_of_time(b, r));
  const Value x = dit::modulated_norm(b, r, ".norm1", m, 0, r["x"]);
  const Value qkv =
      dit::projected(b, r, ".attn.to", {r["qkv"], r["qkv_bias"], r["q_norm"], r["k_norm"]}, x);
  const Value mixed = dit::attention(b, r, ".attn", qkv);
  const Value y =
      b.call("linear", r.path() + ".attn.to_out",
             {{"weight", r["o"]}, {"bias", r["o_bias"]}, {"x", dit::by_rows(b, mixed)}});
  const Value sum = dit::gated_sum(b, r, ".gate", m, 2, r["x"], b.reshape(y, b.shape(x)));
  const Value normed = dit::modulated_norm(b, r, ".norm2", m, 3, sum);
  const Value wide = b.call("gelu_mlp", r.path() + ".mlp",
                            {{"approximate", "tanh"},
                             {"fc1", r["fc1"]},
                             {"fc1_bias", r["fc1_bias"]},
                             {"fc2", r["fc2"]},
                             {"fc2_bias", r["fc2_bias"]},
                             {"x", dit::by_rows(b, normed)}});
  dit::gated_sum(b, r, ".sum", m, 5, sum, b.reshape(wide, b.shape(sum)), r["out"]);
}

FK_BLOCK(dit_block, expand_dit_block);

}  // namespace
}  // namespace fk
