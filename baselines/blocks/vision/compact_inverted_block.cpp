// SPDX-License-Identifier: Apache-2.0
// compact_inverted_block as five or six conv_norm_act and a sum. The sum of two convolutions is
// activated by an op of its own, which gelu has and the others share.
#include <string>

#include "baselines/blocks/vision/convnet.hpp"

namespace fk {
namespace {

using namespace blocks;

// f(x) with the block's activation.
Value activate_images(Builder& b, const Region& r, const std::string& path, Value x) {
  const std::string kind = r.choice("activation");
  if (kind == "none") return x;
  const Dims shape = b.shape(x);
  const Value rows = b.reshape(x, {shape[0] * shape[1] * shape[2], shape[3]});
  Args args = {{"x", rows}};
  if (kind != "gelu") args.emplace_back("kind", kind);
  return b.reshape(b.call(kind == "gelu" ? "gelu" : "activation", r.path() + path, args), shape);
}

void expand_compact_inverted_block(Builder& b, const Region& r) {
  const int64_t channels = r.integer("channels"), wide = r.integer("middle_channels");
  const bool two = r.has("narrow");
  const auto depthwise = [&](const char* name, int64_t count, int64_t kernel, bool active,
                             Value x) {
    return convolve(
        b, r,
        {.name = name, .channels = count, .kernel = kernel, .depthwise = true, .activated = active},
        x);
  };
  Value x = depthwise("start", channels, 3, true, r["x"]);
  x = convolve(b, r, {.name = "expand", .channels = wide}, x);
  const Value middle = depthwise("middle", wide, r.integer("middle_kernel_size"), !two, x);
  if (two)
    x = activate_images(b, r, ".act",
                        sum_images(b, r, ".sum", middle, depthwise("narrow", wide, 3, false, x)));
  else
    x = middle;
  x = convolve(b, r, {.name = "project", .channels = channels}, x);
  sum_images(b, r, ".residual", depthwise("last", channels, 3, true, x), r["x"], r["out"]);
}

FK_BLOCK(compact_inverted_block, expand_compact_inverted_block);

}  // namespace
}  // namespace fk
