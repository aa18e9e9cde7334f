// SPDX-License-Identifier: Apache-2.0
#include "baselines/blocks/vision/convnet.hpp"

namespace fk::blocks {

Value convolve(Builder& b, const Region& r, const Conv& conv, Value x, Value out) {
  using Ints = std::vector<int64_t>;
  const int64_t in = b.shape(x)[3].value(), k = conv.kernel, s = conv.stride;
  const std::string norm = conv.name + "_norm_";
  Args args = {{"in_channels", in},
               {"out_channels", conv.channels},
               {"kernel_size", Ints{k, k}},
               {"stride", Ints{s, s}},
               {"padding", Ints{k / 2, k / 2}},
               {"dilation", Ints{1, 1}},
               {"groups", conv.depthwise ? in : 1},
               {"eps", r.number("eps")},
               {"activation", conv.activated ? r.choice("activation") : "none"},
               {"weight", r[conv.name]},
               {"norm_weight", r[norm + "weight"]},
               {"norm_bias", r[norm + "bias"]},
               {"norm_mean", r[norm + "mean"]},
               {"norm_variance", r[norm + "variance"]},
               {"x", x}};
  if (out) args.emplace_back("out", out);
  return b.call("conv_norm_act", r.path() + "." + conv.name, args);
}

Value sum_images(Builder& b, const Region& r, const std::string& path, Value a, Value c,
                 Value out) {
  const Dims image = b.shape(a);
  const Dims rows = {image[0] * image[1] * image[2], image[3]};
  Args args = {{"a", b.reshape(a, rows)}, {"b", b.reshape(c, rows)}};
  if (out) args.emplace_back("out", b.reshape(out, rows));
  return b.reshape(b.call("add", r.path() + path, args), image);
}

}  // namespace fk::blocks
