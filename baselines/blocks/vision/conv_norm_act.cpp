// SPDX-License-Identifier: Apache-2.0
// conv_norm_act as conv2d, batch_norm.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_conv_norm_act(Builder& b, const Region& r) {
  const Value y = r.call(b, "conv2d", ".conv",
                         {{"kernel_size", r.integers("kernel_size")},
                          {"stride", r.integers("stride")},
                          {"padding", r.integers("padding")},
                          {"dilation", r.integers("dilation")},
                          {"weight", r["weight"]},
                          {"x", r["x"]}});
  const Dims image = b.shape(y);
  const Dims rows = {image[0] * image[1] * image[2], image[3]};
  r.call(b, "batch_norm", ".bn",
         {{"weight", r["norm_weight"]},
          {"bias", r["norm_bias"]},
          {"mean", r["norm_mean"]},
          {"variance", r["norm_variance"]},
          {"x", b.reshape(y, rows)},
          {"out", b.reshape(r["out"], rows)}});
}

FK_BLOCK(conv_norm_act, expand_conv_norm_act);

}  // namespace
}  // namespace fk
