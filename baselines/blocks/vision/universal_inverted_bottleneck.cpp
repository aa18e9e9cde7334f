// SPDX-License-Identifier: Apache-2.0
// universal_inverted_bottleneck as two to four conv_norm_act and a sum.
#include "baselines/blocks/vision/convnet.hpp"

namespace fk {
namespace {

using namespace blocks;

void expand_universal_inverted_bottleneck(Builder& b, const Region& r) {
  const int64_t in = r.integer("in_channels"), wide = r.integer("middle_channels");
  const int64_t stride = r.integer("stride");
  const bool middle = r.has("middle"), residual = r.flag("residual");
  Value x = r["x"];
  if (r.has("start"))
    x = convolve(b, r,
                 {.name = "start",
                  .channels = in,
                  .kernel = r.integer("start_kernel_size"),
                  .stride = middle ? 1 : stride,
                  .depthwise = true,
                  .activated = false},
                 x);
  x = convolve(b, r, {.name = "expand", .channels = wide}, x);
  if (middle)
    x = convolve(b, r,
                 {.name = "middle",
                  .channels = wide,
                  .kernel = r.integer("middle_kernel_size"),
                  .stride = stride,
                  .depthwise = true},
                 x);
  x = convolve(b, r, {.name = "project", .channels = r.integer("out_channels"), .activated = false},
               x, residual ? Value{} : r["out"]);
  if (residual) sum_images(b, r, ".residual", x, r["x"], r["out"]);
}

FK_BLOCK(universal_inverted_bottleneck, expand_universal_inverted_bottleneck);

}  // namespace
}  // namespace fk
