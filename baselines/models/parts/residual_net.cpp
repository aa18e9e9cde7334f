// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/residual_net.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "baselines/models/parts/sizes.hpp"
#include "core/base/error.hpp"

namespace fk::parts {
namespace {

// The values of absent keys, as in transformers.
Json residual_net_defaults() {
  return {{"num_channels", 3},
          {"embedding_size", 64},
          {"hidden_sizes", {256, 512, 1024, 2048}},
          {"depths", {3, 4, 6, 3}},
          {"layer_type", "bottleneck"},
          {"hidden_act", "relu"},
          {"downsample_in_first_stage", false},
          {"downsample_in_bottleneck", false}};
}

// Halves the image.
Value halve(Net& n, const std::string& path, Value x, const char* kind, int64_t kernel,
            int64_t padding) {
  const auto twice = [](int64_t v) { return std::vector<int64_t>{v, v}; };
  return n("pool2d", path,
           {{"kind", kind},
            {"kernel_size", twice(kernel)},
            {"stride", twice(2)},
            {"padding", twice(padding)},
            {"x", x}});
}

Value residual_block(Net& n, const ResidualNet& net, const ResidualBlock& b, Value x) {
  Value shortcut = x;
  const bool halved = net.bottleneck ? b.stride == 2 : b.in != b.out;
  if (halved) shortcut = halve(n, b.path + ".shortcut.0", x, "average", 2, 0);
  if (net.bottleneck ? b.in != b.out || b.stride != 1 : b.path.ends_with(".0"))
    shortcut = conv_norm(n, b.path + (halved ? ".shortcut.1" : ".shortcut"), shortcut,
                         {.channels = b.out});
  Value y = x;
  const auto layer = [&](int i, int64_t channels, int64_t kernel, int64_t stride, bool last) {
    y = conv_norm(n, fmt::format("{}.layer.{}", b.path, i), y,
                  {.channels = channels,
                   .kernel = kernel,
                   .stride = stride,
                   .activation = last ? "none" : "relu"});
  };
  if (net.bottleneck) {
    layer(0, b.out / 4, 1, net.stride_first ? b.stride : 1, false);
    layer(1, b.out / 4, 3, net.stride_first ? 1 : b.stride, false);
    layer(2, b.out, 1, 1, true);
  } else {
    layer(0, b.out, 3, b.stride, false);
    layer(1, b.out, 3, 1, true);
  }
  return by_rows(n, "activation", b.path + ".activation",
                 sum_images(n, b.path + ".sum", y, shortcut), {{"kind", net.activation}});
}

}  // namespace

ResidualNet read_residual_net(const Config& given, const std::string& path) {
  const Config config = given.or_else(residual_net_defaults());
  ResidualNet net;
  net.path = path;
  net.colours = read_count(config, "num_channels");
  net.stem = read_size(config, "embedding_size");
  need_boolean(config, {"downsample_in_first_stage"}, false);
  net.stride_first = config.boolean("downsample_in_bottleneck");
  net.activation = config.text("hidden_act");
  if (net.activation != "relu" && net.activation != "silu")
    config.fail_at("hidden_act", "`" + excerpt(net.activation) + "` is not supported",
                   "relu, silu");
  const std::string kind = config.text("layer_type");
  if (kind != "bottleneck" && kind != "basic")
    config.fail_at("layer_type", "`" + excerpt(kind) + "` is not known", "basic, bottleneck");
  net.bottleneck = kind == "bottleneck";
  const auto sizes = config.integers("hidden_sizes"), depths = config.integers("depths");
  if (sizes.size() != 4 || depths.size() != 4)
    config.fail_at("hidden_sizes", "it and depths need one number for each of four stages");
  int64_t in = net.stem;
  for (size_t s = 0; s < sizes.size(); ++s) {
    bounded(config, "hidden_sizes", sizes[s], kSizeMax);
    bounded(config, "depths", depths[s], kCountMax);
    if (net.bottleneck && sizes[s] % 4 != 0)
      config.fail_at("hidden_sizes", "bottlenecks need multiples of 4");
    auto& stage = net.stages.emplace_back();
    for (int64_t i = 0; i < depths[s]; ++i, in = sizes[s])
      stage.push_back({fmt::format("{}.encoder.stages.{}.layers.{}", path, s, i), in, sizes[s],
                       s > 0 && i == 0 ? 2 : 1});
    if (!net.bottleneck && (stage[0].in == stage[0].out) != (s == 0))
      config.fail_at(
          "hidden_sizes",
          "with layer_type basic, the first is embedding_size and each next one differs");
  }
  if (net.stem < 2) config.fail_at("embedding_size", "it must be at least 2");
  const std::vector<std::string> outputs = {"stage2", "stage3", "stage4"};
  if (config.texts("out_features", outputs) != outputs)
    config.fail_at("out_features", "it must be the last three stages");
  if (config.integers("out_indices", {2, 3, 4}) != std::vector<int64_t>{2, 3, 4})
    config.fail_at("out_indices", "it must be [2, 3, 4]");
  return net;
}

std::vector<Value> residual_net(Net& n, const ResidualNet& net, Value image) {
  Value x = image;
  for (int i = 0; i < 3; ++i)
    x = conv_norm(n, fmt::format("{}.embedder.embedder.{}", net.path, i), x,
                  {.channels = i < 2 ? net.stem / 2 : net.stem,
                   .kernel = 3,
                   .stride = i == 0 ? 2 : 1,
                   .activation = net.activation});
  x = halve(n, net.path + ".embedder.pooler", x, "max", 3, 1);
  std::vector<Value> maps;
  for (const auto& stage : net.stages) {
    for (const auto& block : stage) x = residual_block(n, net, block, x);
    maps.push_back(x);
  }
  return maps;
}

}  // namespace fk::parts
