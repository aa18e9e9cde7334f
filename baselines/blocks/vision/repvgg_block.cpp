// SPDX-License-Identifier: Apache-2.0
// repvgg_block as two conv_norm_act, a sum, and an activation.
#include "baselines/blocks/vision/convnet.hpp"

namespace fk {
namespace {

using namespace blocks;

void expand_repvgg_block(Builder& b, const Region& r) {
  const int64_t channels = r.integer("channels");
  const std::string kind = r.choice("activation");
  const Value wide = convolve(
      b, r, {.name = "wide", .channels = channels, .kernel = 3, .activated = false}, r["x"]);
  const Value point =
      convolve(b, r, {.name = "point", .channels = channels, .activated = false}, r["x"]);
  const Value out = r["out"];
  if (kind == "none") {
    sum_images(b, r, ".sum", wide, point, out);
    return;
  }
  const Value sum = sum_images(b, r, ".sum", wide, point);
  const Dims image = b.shape(out);
  const Dims rows = {image[0] * image[1] * image[2], image[3]};
  Args args = {{"x", b.reshape(sum, rows)}, {"out", b.reshape(out, rows)}};
  if (kind != "gelu") args.emplace_back("kind", kind);
  b.call(kind == "gelu" ? "gelu" : "activation", r.path() + ".activation", args);
}

FK_BLOCK(repvgg_block, expand_repvgg_block);

}  // namespace
}  // namespace fk
