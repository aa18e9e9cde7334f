// SPDX-License-Identifier: Apache-2.0
// vit_attention as linear, rotary_rows, biased_attention, linear.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_vit_attention(Builder& b, const Region& r) {
  const int64_t heads = r.integer("num_heads"), width = r.integer("head_dim");
  const Dims x = b.shape(r["x"]);
  const Dims rows = {x[0] * x[1], x[2]};
  const Value qkv =
      r.call(b, "linear", ".qkv_proj",
             {{"weight", r["qkv"]}, {"bias", r["qkv_bias"]}, {"x", b.reshape(r["x"], rows)}});
  const Value by_row = b.reshape(qkv, {rows[0], 3 * heads, width});
  if (r.has("cos"))
    b.call("rotary_rows", r.path() + ".rope",
           {{"num_heads", heads},
            {"num_kv_heads", heads},
            {"head_dim", width},
            {"rotary_dim", r.integer("rotary_dim")},
            {"interleaved", r.flag("interleaved")},
            {"q", b.slice(by_row, 1, 0, heads)},
            {"k", b.slice(by_row, 1, heads, heads)},
            {"cos", r["cos"]},
            {"sin", r["sin"]}});
  const Value by_image = b.reshape(qkv, {x[0], x[1], 3 * heads, width});
  const Value mixed = b.call("biased_attention", r.path() + ".attn",
                             {{"num_heads", heads},
                              {"num_kv_heads", heads},
                              {"head_dim", width},
                              {"scale", r.number("scale")},
                              {"q", b.slice(by_image, 2, 0, heads)},
                              {"k", b.slice(by_image, 2, heads, heads)},
                              {"v", b.slice(by_image, 2, 2 * heads, heads)},
                              {"mask", r["mask"]}});
  r.call(b, "linear", ".out_proj",
         {{"weight", r["o"]},
          {"bias", r["o_bias"]},
          {"x", b.reshape(mixed, {rows[0], heads * width})},
          {"out", b.reshape(r["out"], rows)}});
}

FK_BLOCK(vit_attention, expand_vit_attention);

}  // namespace
}  // namespace fk
