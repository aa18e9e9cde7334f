// SPDX-License-Identifier: Apache-2.0
// conv1d_group_norm as conv2d of an image with one row, and group_norm.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_conv1d_group_norm(Builder& b, const Region& r) {
  const int64_t taps = r.integer("kernel_size");
  const Value x = r["x"], weight = r["weight"], out = r["out"];
  const auto image = [&](Value v) {
    return b.reshape(v, {b.shape(v)[0], 1, b.shape(v)[1], b.shape(v)[2]});
  };
  const Dims sizes = b.shape(weight);
  using Ints = std::vector<int64_t>;
  const Value y = r.call(b, "conv2d", ".block.0",
                         {{"kernel_size", Ints{1, taps}},
                          {"stride", Ints{1, 1}},
                          {"padding", Ints{0, taps / 2}},
                          {"dilation", Ints{1, 1}},
                          {"groups", 1},
                          {"weight", b.reshape(weight, {sizes[0], sizes[1], 1, sizes[2]})},
                          {"bias", r["bias"]},
                          {"x", image(x)}});
  r.call(b, "group_norm", ".block.1",
         {{"num_groups", r.integer("n_groups")},
          {"activation", "mish"},
          {"weight", r["norm_weight"]},
          {"bias", r["norm_bias"]},
          {"x", y},
          {"out", image(out)}});
}

FK_BLOCK(conv1d_group_norm, expand_conv1d_group_norm);

}  // namespace
}  // namespace fk
