// SPDX-License-Identifier: Apache-2.0
// inverted_residual as three conv_norm_act, squeeze_excite and a sum.
#include "baselines/blocks/vision/convnet.hpp"

namespace fk {
namespace {

using namespace blocks;

void expand_inverted_residual(Builder& b, const Region& r) {
  const int64_t wide = r.integer("middle_channels");
  const bool residual = r.flag("residual");
  Value x = convolve(b, r, {.name = "expand", .channels = wide}, r["x"]);
  x = convolve(b, r,
               {.name = "middle",
                .channels = wide,
                .kernel = r.integer("kernel_size"),
                .stride = r.integer("stride"),
                .depthwise = true},
               x);
  if (r.has("squeeze"))
    x = r.call(b, "squeeze_excite", ".se",
               {{"squeezed_size", r.integer("squeezed_channels")}, {"x", x}});
  x = convolve(b, r, {.name = "project", .channels = r.integer("out_channels"), .activated = false},
               x, residual ? Value{} : r["out"]);
  if (residual) sum_images(b, r, ".residual", x, r["x"], r["out"]);
}

FK_BLOCK(inverted_residual, expand_inverted_residual);

}  // namespace
}  // namespace fk
