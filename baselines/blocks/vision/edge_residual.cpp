// SPDX-License-Identifier: Apache-2.0
// edge_residual as two conv_norm_act and a sum.
#include "baselines/blocks/vision/convnet.hpp"

namespace fk {
namespace {

using namespace blocks;

void expand_edge_residual(Builder& b, const Region& r) {
  const Value wide = convolve(b, r,
                              {.name = "expand",
                               .channels = r.integer("middle_channels"),
                               .kernel = r.integer("kernel_size"),
                               .stride = r.integer("stride")},
                              r["x"]);
  const bool residual = r.flag("residual");
  const Value y =
      convolve(b, r, {.name = "project", .channels = r.integer("out_channels"), .activated = false},
               wide, residual ? Value{} : r["out"]);
  if (residual) sum_images(b, r, ".residual", y, r["x"], r["out"]);
}

FK_BLOCK(edge_residual, expand_edge_residual);

}  // namespace
}  // namespace fk
