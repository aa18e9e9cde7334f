// SPDX-License-Identifier: Apache-2.0
// single_dit_block: attention and the first half of an MLP behind one modulated norm, their results
// side by side, one product, and a gate.
#include "baselines/blocks/diffusion/dit.hpp"

namespace fk {
namespace {

void expand_single_dit_block(Builder& b, const Region& r) {
  const int64_t all = r.integer("num_heads") * r.integer("head_dim"),
                width = r.integer("intermediate_size");
  const auto m = dit::modulation(b, r, "modulation", ".norm.linear", dit::silu_of_time(b, r));
  const Value x = dit::modulated_norm(b, r, ".norm", m, 0, r["x"]);
  const Value qkv =
      dit::projected(b, r, ".attn.to", {r["qkv"], r["qkv_bias"], r["q_norm"], r["k_norm"]}, x);
  const Value mixed = dit::attention(b, r, ".attn", qkv);
  const Value wide =
      b.call("linear", r.path() + ".proj_mlp",
             {{"weight", r["fc1"]}, {"bias", r["fc1_bias"]}, {"x", dit::by_rows(b, x)}});
  const Value hidden =
      b.call("gelu", r.path() + ".act_mlp", {{"approximate", "tanh"}, {"x", wide}});
  const Value both = b.empty(b.dtype(x), {b.shape(hidden)[0], all + width});
  b.call("concat_channels", r.path() + ".both",
         {{"num_parts", 2},
          {"sizes", std::vector<int64_t>{all, width}},
          {"size", all + width},
          {"x", std::vector<Value>{dit::by_rows(b, mixed), hidden}},
          {"out", both}});
  const Value y = b.call("linear", r.path() + ".proj_out",
                         {{"weight", r["o"]}, {"bias", r["o_bias"]}, {"x", both}});
  dit::gated_sum(b, r, ".sum", m, 2, r["x"], b.reshape(y, b.shape(x)), r["out"]);
}

FK_BLOCK(single_dit_block, expand_single_dit_block);

}  // namespace
}  // namespace fk
