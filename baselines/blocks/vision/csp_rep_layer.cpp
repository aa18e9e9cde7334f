// SPDX-License-Identifier: Apache-2.0
// csp_rep_layer as three repvgg_block between conv_norm_act, and a sum.
#include "baselines/blocks/vision/convnet.hpp"

namespace fk {
namespace {

using namespace blocks;

void expand_csp_rep_layer(Builder& b, const Region& r) {
  const int64_t middle = r.integer("middle_channels");
  Value y = convolve(b, r, {.name = "conv1", .channels = middle}, r["x"]);
  for (int i = 0; i < 3; ++i) {
    const std::string place = std::to_string(i);
    Args args = {{"channels", middle}, {"x", y}};
    for (const std::string name : {"wide", "point"})
      for (const std::string leaf :
           {"", "_norm_weight", "_norm_bias", "_norm_mean", "_norm_variance"})
        args.emplace_back(name + leaf, r[name + place + leaf]);
    y = r.call(b, "repvgg_block", ".bottlenecks." + place, args);
  }
  const Value other = convolve(b, r, {.name = "conv2", .channels = middle}, r["x"]);
  if (!r.has("conv3")) {
    sum_images(b, r, ".sum", y, other, r["out"]);
    return;
  }
  convolve(b, r, {.name = "conv3", .channels = r.integer("out_channels")},
           sum_images(b, r, ".sum", y, other), r["out"]);
}

FK_BLOCK(csp_rep_layer, expand_csp_rep_layer);

}  // namespace
}  // namespace fk
