// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/vit.hpp"

#include <cmath>

#include "baselines/models/parts/gelu.hpp"
#include "baselines/models/parts/sizes.hpp"
#include "core/base/error.hpp"

namespace fk::parts {

using Ints = std::vector<int64_t>;

VitSizes read_vit(const Config& config, bool gated) {
  VitSizes vit;
  vit.hidden = read_size(config, "hidden_size");
  vit.layers = read_count(config, "num_hidden_layers");
  vit.heads = read_count(config, "num_attention_heads");
  vit.mlp = read_size(config, "intermediate_size");
  if (vit.hidden % vit.heads != 0)
    config.fail_at("num_attention_heads", "hidden_size is not a multiple of it");
  vit.gated = gated;
  if (gated)
    need_text(config, "hidden_act", "silu");
  else
    vit.approximate = read_gelu(config, "hidden_act");
  return vit;
}

void read_patches(const Config& config, VitSizes& vit) {
  vit.image_size = read_count(config, "image_size");
  vit.patch = read_count(config, "patch_size");
  if (vit.side() < 1) config.fail_at("patch_size", "no patch fits into image_size");
}

void begin_vit(Net& n, const VitSizes& vit) {
  n.common({{"num_heads", vit.heads},
            {"head_dim", vit.head_dim()},
            {"scale", 1 / std::sqrt(static_cast<double>(vit.head_dim()))},
            {"intermediate_size", vit.mlp},
            {"gated", vit.gated},
            {"approximate", vit.approximate},
            {"eps", vit.eps}});
}

Value patch_rows(Net& n, const std::string& path, Value image, int64_t channels, int64_t patch,
                 Value weight) {
  Args args = {{"out_channels", channels},     {"kernel_size", Ints{patch, patch}},
               {"stride", Ints{patch, patch}}, {"padding", Ints{0, 0}},
               {"dilation", Ints{1, 1}},       {"x", image}};
  if (weight) args.emplace_back("weight", weight);
  const Value y = n("conv2d", path, args, {"bias"});
  const Dims shape = n.shape(y);
  return n.reshape(y, {shape[0], shape[1] * shape[2], channels});
}

Value with_prefix(Net& n, const std::string& path, Value prefix, Value x) {
  return n("prepend_rows", path,
           {{"prefix_rows", n.shape(prefix)[0].value()}, {"prefix", prefix}, {"x", x}});
}

Value same_rows(Net& n, const std::string& path, Value row, Value x) {
  const Value both =
      n("prepend_rows", path, {{"prefix_rows", 1}, {"prefix", row}, {"x", n.slice(x, 1, 0, 1)}});
  return n.slice(both, 1, 0, 1);
}

Value first_tokens(Net& n, const std::string& path, Value x) {
  const Dims shape = n.shape(x);
  const Value first = n("prepend_rows", path, {{"prefix_rows", 0}, {"x", n.slice(x, 1, 0, 1)}});
  return n.reshape(first, {shape[0], shape[2]});
}

}  // namespace fk::parts
