// SPDX-License-Identifier: Apache-2.0
// convnextv2_block as conv2d, layer_norm, global_response_norm_mlp, add.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

using Ints = std::vector<int64_t>;

void expand_convnextv2_block(Builder& b, const Region& r) {
  const int64_t channels = r.integer("hidden_size"), kernel = r.integer("kernel_size");
  const Dims image = b.shape(r["x"]);
  const Dims rows = {image[0] * image[1] * image[2], channels};
  const Value local = b.call("conv2d", r.path() + ".dwconv",
                             {{"in_channels", channels},
                              {"out_channels", channels},
                              {"kernel_size", Ints{kernel, kernel}},
                              {"stride", Ints{1, 1}},
                              {"padding", Ints{kernel / 2, kernel / 2}},
                              {"dilation", Ints{1, 1}},
                              {"groups", channels},
                              {"weight", r["dwconv"]},
                              {"bias", r["dwconv_bias"]},
                              {"x", r["x"]}});
  const Value normed = r.call(
      b, "layer_norm", ".layernorm",
      {{"weight", r["norm_weight"]}, {"bias", r["norm_bias"]}, {"x", b.reshape(local, rows)}});
  const Value mixed =
      r.call(b, "global_response_norm_mlp", ".mlp", {{"x", b.reshape(normed, image)}});
  r.call(b, "add", ".residual",
         {{"a", b.reshape(r["x"], rows)},
          {"b", b.reshape(mixed, rows)},
          {"out", b.reshape(r["out"], rows)}});
}

FK_BLOCK(convnextv2_block, expand_convnextv2_block);

}  // namespace
}  // namespace fk
