// SPDX-License-Identifier: Apache-2.0
// convnextv2_block as conv2d, layer_norm, global_response_norm_mlp, add.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

using Ints = std::vector<int64_t>;

void expand_convnextv2_block(Builder& b, const Region& r) {
  const int64_t channels = r.integer("hidden_size"), kernel = r.integer("kernel_size");
  const Value x = r["x"];
  const Dims image = b.shape(x);
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
                              {"x", x}});
  const Value normed = b.call("layer_norm", r.path() + ".layernorm",
                              {{"hidden_size", channels},
                               {"eps", r.number("eps")},
                               {"weight", r["norm_weight"]},
                               {"bias", r["norm_bias"]},
                               {"x", b.reshape(local, rows)}});
  const Value mixed = b.call("global_response_norm_mlp", r.path() + ".mlp",
                             {{"hidden_size", channels},
                              {"intermediate_size", r.integer("intermediate_size")},
                              {"approximate", r.choice("approximate")},
                              {"grn_eps", r.number("grn_eps")},
                              {"fc1", r["fc1"]},
                              {"fc1_bias", r["fc1_bias"]},
                              {"grn_weight", r["grn_weight"]},
                              {"grn_bias", r["grn_bias"]},
                              {"fc2", r["fc2"]},
                              {"fc2_bias", r["fc2_bias"]},
                              {"x", b.reshape(normed, image)}});
  b.call("add", r.path() + ".residual",
         {{"size", channels},
          {"a", b.reshape(x, rows)},
          {"b", b.reshape(mixed, rows)},
          {"out", b.reshape(r["out"], rows)}});
}

FK_BLOCK(convnextv2_block, expand_convnextv2_block);

}  // namespace
}  // namespace fk
