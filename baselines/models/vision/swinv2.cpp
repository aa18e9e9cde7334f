// SPDX-License-Identifier: Apache-2.0
// Swin Transformer V2: stages of blocks with attention in windows. Every second block has its
// windows moved by half a window. Between stages, 2 x 2 pixels become one. Rows of pixels are
// reordered by tables.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "baselines/models/parts/sizes.hpp"
#include "baselines/models/parts/vit.hpp"

namespace fk {
namespace {

using namespace parts;

struct SwinStage {
  int64_t channels, depth, heads, side, window, pretrained;
};
struct SwinConfig {
  int64_t colours = 0, image_size = 0, patch = 0;
  double eps = 0, mlp_ratio = 0;
  bool bias = true;
  std::vector<SwinStage> stages;
};

SwinConfig read_swinv2(const Config& config) {
  SwinConfig c;
  c.colours = read_count(config, "num_channels");
  c.image_size = read_count(config, "image_size");
  c.patch = read_count(config, "patch_size");
  c.eps = config.number("layer_norm_eps");
  c.mlp_ratio = config.number("mlp_ratio");
  if (!(c.mlp_ratio > 0 && c.mlp_ratio <= 64))
    config.fail_at("mlp_ratio", "it must be between 0 and 64");
  c.bias = config.boolean("qkv_bias");
  need_text(config, "hidden_act", "gelu");
  need_boolean(config, {"use_absolute_embeddings"}, false);
  const int64_t width = read_size(config, "embed_dim"), window = read_count(config, "window_size");
  const auto depths = config.integers("depths"), heads = config.integers("num_heads");
  const auto pretrained = config.integers("pretrained_window_sizes");
  if (depths.empty() || depths.size() > 8 || heads.size() != depths.size())
    config.fail_at("num_heads",
                   "it needs one number for each of depths, of which there are 1 to 8");
  if (pretrained.size() < depths.size())
    config.fail_at("pretrained_window_sizes", "it needs one number for each of depths");
  int64_t side = c.image_size / c.patch, channels = width;
  for (size_t s = 0; s < depths.size(); ++s, side /= 2, channels *= 2) {
    bounded(config, "depths", depths[s], kCountMax);
    bounded(config, "num_heads", heads[s], kCountMax);
    if (channels % heads[s] != 0) config.fail_at("num_heads", "it does not divide the channels");
    if (side < 1) config.fail_at("image_size", "nothing of the image is left in the last stage");
    const SwinStage stage{channels,     depths[s], heads[s], side, std::min(side, window),
                          pretrained[s]};
    if (side % stage.window != 0)
      config.fail_at("window_size", "windows do not fill the " + std::to_string(side) +
                                        " rows of pixels of stage " + std::to_string(s));
    if (s + 1 < depths.size() && side % 2 != 0)
      config.fail_at("image_size", "stage " + std::to_string(s) + " has an odd number of rows");
    if (stage.pretrained < 0 || stage.pretrained == 1 || stage.pretrained > kCountMax)
      config.fail_at("pretrained_window_sizes", "it must be 0, or from 2 on");
    c.stages.push_back(stage);
  }
  return c;
}

using Numbers = std::vector<double>;

// The pixel of each token, window by window. Windows are moved down and right by `shift`.
Numbers window_pixels(const SwinStage& s, int64_t shift) {
  Numbers pixels;
  const int64_t across = s.side / s.window;
  for (int64_t i = 0; i < s.side * s.side; ++i) {
    const int64_t window = i / (s.window * s.window), token = i % (s.window * s.window);
    const int64_t y = window / across * s.window + token / s.window + shift;
    const int64_t x = window % across * s.window + token % s.window + shift;
    pixels.push_back(static_cast<double>(y % s.side * s.side + x % s.side));
  }
  return pixels;
}
Numbers inverse(const Numbers& order) {
  Numbers places(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    places[static_cast<size_t>(order[i])] = static_cast<double>(i);
  return places;
}

// [windows, T, T]: -100 between tokens which lie side by side only because the windows were moved.
Numbers window_mask(const SwinStage& s, int64_t shift) {
  const int64_t across = s.side / s.window, tokens = s.window * s.window;
  // The part of the image from which a row or column of the moved image comes.
  const auto region = [&](int64_t place) {
    return (place >= s.side - s.window ? 1 : 0) + (place >= s.side - shift ? 1 : 0);
  };
  Numbers mask;
  for (int64_t w = 0; w < across * across; ++w) {
    const auto of = [&](int64_t token) {
      return 3 * region(w / across * s.window + token / s.window) +
             region(w % across * s.window + token % s.window);
    };
    for (int64_t i = 0; i < tokens * tokens; ++i)
      mask.push_back(of(i / tokens) == of(i % tokens) ? 0 : -100);
  }
  return mask;
}

// [(2 window - 1)^2, 2]: distances of rows and columns on a logarithmic scale.
Numbers distances(const SwinStage& s) {
  const int64_t most = s.pretrained > 0 ? s.pretrained - 1 : std::max<int64_t>(s.window - 1, 1);
  Numbers all;
  for (int64_t y = 1 - s.window; y < s.window; ++y)
    for (int64_t x = 1 - s.window; x < s.window; ++x)
      for (const int64_t d : {y, x}) {
        const double far = 8 * static_cast<double>(d) / static_cast<double>(most);
        all.push_back(std::copysign(std::log2(std::fabs(far) + 1) / 3, far));
      }
  return all;
}

// [T * T]: the row of distances() of each pair of tokens.
Numbers token_pairs(const SwinStage& s) {
  const int64_t tokens = s.window * s.window;
  Numbers rows;
  for (int64_t i = 0; i < tokens * tokens; ++i) {
    const int64_t q = i / tokens, k = i % tokens;
    const int64_t y = q / s.window - k / s.window, x = q % s.window - k % s.window;
    rows.push_back(static_cast<double>((y + s.window - 1) * (2 * s.window - 1) + x + s.window - 1));
  }
  return rows;
}

class SwinV2 : public ImageModel {
 public:
  explicit SwinV2(const Config& config) : config_(read_swinv2(config)) {}

  void forward(Net& n, const std::string&) const override {
    n.adapt([](WeightSpec& spec) {
      if (ends_with(spec.name, "logit_scale"))
        spec.map = [](double v) { return std::exp(std::min(v, std::log(100.0))); };
    });
    n.rename({{"patches", "embeddings.patch_embeddings.projection"}});
    n.common({{"eps", config_.eps}});
    Value x =
        patch_rows(n, "patches", pixels(n, config_.colours, config_.image_size, config_.image_size),
                   config_.stages[0].channels, config_.patch);
    x = by_rows(n, "layer_norm", "embeddings.norm", x, {});
    n.tap("hidden.0", {x});
    for (size_t s = 0; s < config_.stages.size(); ++s) {
      const std::string path = fmt::format("encoder.layers.{}", s);
      x = blocks(n, path, config_.stages[s], x);
      if (s + 1 < config_.stages.size()) x = merge(n, path + ".downsample", config_.stages[s], x);
      n.tap(fmt::format("hidden.{}", s + 1), {x});
    }
    x = by_rows(n, "layer_norm", "layernorm", x, {});
    n.output("last_hidden_state", x);
    const SwinStage& last = config_.stages.back();
    n.output("pooler_output",
             n("mean_pool", "pooler",
               {{"x", n.reshape(x, {n.shape(x)[0], last.side, last.side, last.channels})}}));
  }

  std::vector<std::string> results() const override {
    return {"last_hidden_state", "pooler_output"};
  }
  std::vector<RequestTensor> inputs() const override {
    return {{"pixel_values", {config_.colours, config_.image_size, config_.image_size}}};
  }

 private:
  Value blocks(Net& n, const std::string& path, const SwinStage& s, Value x) const {
    const int64_t tokens = s.window * s.window, pixels = s.side * s.side;
    const int64_t away = 2 * s.window - 1, width = s.channels / s.heads;
    const auto rows = [&](const std::string& name, const Numbers& numbers) {
      return computed(n, path + "." + name, DType::i32, {static_cast<int64_t>(numbers.size())},
                      [=] { return numbers; });
    };
    const Value places =
        computed(n, path + ".places", DType::f32, {away * away, 2}, [=] { return distances(s); });
    const Value pairs = rows("pairs", token_pairs(s));
    for (int64_t i = 0; i < s.depth; ++i) {
      const int64_t shift = i % 2 == 1 && s.window < s.side ? s.window / 2 : 0;
      const std::string kind = shift ? "moved" : "plain";
      const Numbers order = window_pixels(s, shift);
      Args args = {{"num_heads", s.heads},
                   {"head_dim", width},
                   {"window_tokens", tokens},
                   {"place_size", 512},
                   {"intermediate_size",
                    static_cast<int64_t>(static_cast<double>(s.channels) * config_.mlp_ratio)},
                   {"to_windows", rows(kind + ".to_windows", order)},
                   {"to_pixels", rows(kind + ".to_pixels", inverse(order))},
                   {"places", places},
                   {"pairs", pairs},
                   {"x", x}};
      if (!config_.bias) args.emplace_back("qkv_bias", Value{});
      if (shift)
        args.emplace_back("mask",
                          computed(n, path + ".mask", DType::f32, {pixels / tokens, tokens, tokens},
                                   [=] { return window_mask(s, shift); }));
      x = n("swinv2_block", fmt::format("{}.blocks.{}", path, i), args);
    }
    return x;
  }

  // Four pixels become one: their channels side by side, a product, a norm.
  Value merge(Net& n, const std::string& path, const SwinStage& s, Value x) const {
    Numbers order;
    for (int64_t i = 0; i < s.side * s.side; ++i) {
      const int64_t half = s.side / 2, pixel = i / 4;
      const int64_t y = pixel / half * 2 + i % 2, column = pixel % half * 2 + i / 2 % 2;
      order.push_back(static_cast<double>(y * s.side + column));
    }
    const Value rows =
        computed(n, path + ".rows", DType::i32, {s.side * s.side}, [=] { return order; });
    const Value four = n("select_rows", path + ".pixels", {{"x", x}, {"rows", rows}});
    const Expr images = n.shape(x)[0], left = images * (s.side * s.side / 4);
    const Value y =
        n("linear", path + ".reduction",
          {{"out_features", 2 * s.channels}, {"x", n.reshape(four, {left, 4 * s.channels})}});
    return n.reshape(n("layer_norm", path + ".norm", {{"x", y}}),
                     {images, s.side * s.side / 4, 2 * s.channels});
  }

  SwinConfig config_;
};

std::unique_ptr<Model> make_swinv2(const Config& config) {
  return std::make_unique<SwinV2>(config);
}

FK_MODEL(swinv2, make_swinv2, {"Swinv2Model"}, {"swinv2"},
         {"attention_probs_dropout_prob", "drop_path_rate", "encoder_stride", "hidden_dropout_prob",
          "hidden_size", "initializer_range", "num_layers", "out_features", "out_indices",
          "stage_names"});

}  // namespace
}  // namespace fk
