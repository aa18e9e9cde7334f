// SPDX-License-Identifier: Apache-2.0
// DINOv3: patches of an image behind a class token and registers. Pre-norm layers turn patches by
// their place in the image. The results are all tokens, and the class token alone.
#include <fmt/format.h>

#include <cmath>

#include "baselines/models/parts/gelu.hpp"
#include "baselines/models/parts/sizes.hpp"
#include "baselines/models/parts/vit.hpp"
#include "core/base/error.hpp"

namespace fk {
namespace {

using namespace parts;

constexpr double kPi = 3.14159265358979323846;

struct DinoConfig {
  VitSizes vit;
  int64_t colours = 0, registers = 0;
  double theta = 0;
  std::vector<std::string> without;  // biases that a layer lacks: q, k, v
  bool o_bias = true, mlp_bias = true;
  int64_t prefix() const { return 1 + registers; }
};

DinoConfig read_dinov3(const Config& config) {
  DinoConfig c;
  c.vit = read_vit(config, config.boolean("use_gated_mlp"));
  c.vit.eps = config.number("layer_norm_eps");
  c.colours = read_count(config, "num_channels");
  c.registers = config.integer("num_register_tokens");
  if (c.registers < 0 || c.registers > kCountMax)
    config.fail_at("num_register_tokens", "it must be between 0 and " + std::to_string(kCountMax));
  read_patches(config, c.vit);
  if (c.vit.head_dim() % 4 != 0)
    config.fail_at("num_attention_heads", "the width of a head is not a multiple of 4");
  c.theta = config.number("rope_theta");
  for (const char* name : {"query", "key", "value"})
    if (!config.boolean(std::string(name) + "_bias")) c.without.emplace_back(1, name[0]);
  if (c.without.size() == 2)
    config.fail_at("key_bias", "two of query_bias, key_bias and value_bias may not be false");
  c.o_bias = config.boolean("proj_bias");
  c.mlp_bias = config.boolean("mlp_bias");
  return c;
}

class DinoV3 : public ImageModel {
 public:
  explicit DinoV3(const Config& config) : config_(read_dinov3(config)) {}

  void forward(Net& n, const std::string&) const override {
    const VitSizes& vit = config_.vit;
    n.rename({{"self_attn.q_proj", "attention.q_proj"},
              {"self_attn.k_proj", "attention.k_proj"},
              {"self_attn.v_proj", "attention.v_proj"},
              {"self_attn.qkv_proj", "attention.qkv_proj"},
              {"self_attn.out_proj", "attention.o_proj"},
              {"layer_norm1", "norm1"},
              {"layer_norm2", "norm2"},
              {"mlp.fc2", "mlp.down_proj"}});
    n.adapt([this](WeightSpec& spec) { split_parts(spec); });
    Value x = tokens(n);
    begin_vit(n, vit);
    n.common({{"rotary_dim", vit.head_dim()}, {"cos", table(n, "cos")}, {"sin", table(n, "sin")}});
    std::vector<std::string> with = {"layer_scale"};
    Args lacks;
    if (config_.without.size() == 3) lacks.emplace_back("qkv_bias", Value{});
    if (!config_.o_bias) lacks.emplace_back("o_bias", Value{});
    if (!config_.mlp_bias) {
      lacks.emplace_back("fc1_bias", Value{});
      lacks.emplace_back("fc2_bias", Value{});
    }
    for (int64_t i = 0; i < vit.layers; ++i) {
      n.tap(fmt::format("hidden.{}", i), {x});
      Args args = lacks;
      args.emplace_back("x", x);
      x = n("vit_layer", fmt::format("layer.{}", i), args, with);
    }
    n.tap(fmt::format("hidden.{}", vit.layers), {x});
    x = by_rows(n, "layer_norm", "norm", x, {{"eps", vit.eps}});
    n.output("last_hidden_state", x);
    n.output("pooler_output", first_tokens(n, "pooler", x));
  }

  std::vector<std::string> results() const override {
    return {"last_hidden_state", "pooler_output"};
  }
  std::vector<RequestTensor> inputs() const override {
    return {{"pixel_values", {config_.colours, config_.vit.image_size, config_.vit.image_size}}};
  }
  std::vector<Unread> unread() const override {
    std::vector<Unread> list = {{"embeddings.mask_token", "a token of the training"}};
    if (config_.registers == 0) list.push_back({"embeddings.register_tokens", "an empty list"});
    return list;
  }

 private:
  // The class token, the registers, and the patches of each image.
  Value tokens(Net& n) const {
    const int64_t channels = config_.vit.hidden, side = config_.vit.image_size;
    const Value image = pixels(n, config_.colours, side, side);
    const Value patches =
        patch_rows(n, "embeddings.patch_embeddings", image, channels, config_.vit.patch);
    WeightSpec spec;
    spec.name = "embeddings.prefix";
    spec.dtype = n.limits().weights();
    spec.shape = {config_.prefix(), channels};
    spec.stddev = 1;
    spec.parts = {{"embeddings.cls_token"}};
    spec.views = {{{1, channels}, 0, 0, 1, {0, 1}}};
    if (config_.registers > 0) {
      spec.parts[0].emplace_back("embeddings.register_tokens");
      spec.views.push_back({{config_.registers, channels}, 0, 0, config_.registers, {0, 1}});
    }
    return with_prefix(n, "embeddings", n.weight(spec), patches);
  }

  // [tokens, head width]: 1 and 0 for the tokens before the patches. A patch's angles are those of
  // its row, then of its column, both twice; its centre lies between -1 and 1.
  Value table(Net& n, const std::string& name) const {
    const int64_t side = config_.vit.side(), width = config_.vit.head_dim();
    const int64_t prefix = config_.prefix(), quarter = width / 4;
    const double theta = config_.theta;
    const bool cosine = name == "cos";
    return computed(n, "rope_embeddings." + name, DType::f32, {prefix + side * side, width}, [=] {
      std::vector<double> all(static_cast<size_t>((prefix + side * side) * width), cosine ? 1 : 0);
      auto at = all.begin() + prefix * width;
      for (int64_t patch = 0; patch < side * side; ++patch)
        for (int64_t i = 0; i < width; ++i) {
          const int64_t half = i % (2 * quarter);
          const int64_t place = half < quarter ? patch / side : patch % side;
          const double centre =
              2 * (static_cast<double>(place) + 0.5) / static_cast<double>(side) - 1;
          const double exponent =
              static_cast<double>(half % quarter) / static_cast<double>(quarter);
          const double angle = 2 * kPi * centre / std::pow(theta, exponent);
          *at++ = cosine ? std::cos(angle) : std::sin(angle);
        }
      return all;
    });
  }

  // Checkpoints have separate q, k and v, some without a bias. Gate and up are separate too.
  void split_parts(WeightSpec& spec) const {
    if (ends_with(spec.name, "attention.qkv_proj.bias"))
      for (auto& names : spec.parts)
        for (size_t i = 0; i < names.size(); ++i)
          if (contains(config_.without, std::string(1, "qkv"[i]))) names[i].clear();
    const size_t at = spec.name.rfind(".mlp.fc1.");
    if (at == std::string::npos) return;
    const std::string mlp = spec.name.substr(0, at + 5), leaf = spec.name.substr(at + 9);
    if (config_.vit.gated)
      spec.parts = {{mlp + "gate_proj." + leaf, mlp + "up_proj." + leaf}};
    else
      spec.parts = {{mlp + "up_proj." + leaf}};
  }

  DinoConfig config_;
};

std::unique_ptr<Model> make_dinov3(const Config& config) {
  return std::make_unique<DinoV3>(config);
}

FK_MODEL(dinov3, make_dinov3, {"DINOv3ViTModel"}, {"dinov3_vit"},
         {"apply_layernorm", "attention_dropout", "drop_path_rate", "initializer_range",
          "layerscale_value", "out_features", "out_indices", "pos_embed_jitter",
          "pos_embed_rescale", "pos_embed_shift", "reshape_hidden_states", "stage_names"});

}  // namespace
}  // namespace fk
