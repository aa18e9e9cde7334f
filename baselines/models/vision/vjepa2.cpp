// SPDX-License-Identifier: Apache-2.0
// V-JEPA 2: an encoder of videos, whose tokens are patches over two frames, and a predictor. The
// predictor sees all tokens of the encoder, and a mask token in each place. It predicts the
// encoder's token for each mask token.
#include <fmt/format.h>

#include <cmath>

#include "baselines/models/parts/gelu.hpp"
#include "baselines/models/parts/sizes.hpp"
#include "baselines/models/parts/vit.hpp"

namespace fk {
namespace {

using namespace parts;

struct JepaConfig {
  VitSizes encoder, predictor;
  int64_t colours = 0, frames = 0, tubelet = 0, mask_tokens = 0;
  int64_t depth() const { return frames / tubelet; }
  int64_t tokens() const { return depth() * encoder.side() * encoder.side(); }
};

// Channels of one of the three axes: frames, rows, columns.
int64_t axis_channels(const VitSizes& vit) { return vit.head_dim() / 3 / 2 * 2; }

VitSizes read_part(const Config& config, const std::string& prefix) {
  VitSizes vit;
  vit.hidden = read_size(config, prefix + "hidden_size");
  vit.layers = read_count(config, prefix + "num_hidden_layers");
  vit.heads = read_count(config, prefix + "num_attention_heads");
  if (vit.hidden % vit.heads != 0)
    config.fail_at(prefix + "num_attention_heads", prefix + "hidden_size is not a multiple of it");
  if (axis_channels(vit) < 2)
    config.fail_at(prefix + "num_attention_heads", "a head has less than 6 channels");
  const double wide = static_cast<double>(vit.hidden) * config.number(prefix + "mlp_ratio");
  if (!(wide >= 1 && wide <= static_cast<double>(kSizeMax)))
    config.fail_at(prefix + "mlp_ratio",
                   "the MLP has no width between 1 and " + std::to_string(kSizeMax));
  vit.mlp = static_cast<int64_t>(wide);
  vit.approximate = read_gelu(config, "hidden_act");
  vit.eps = config.number("layer_norm_eps");
  vit.image_size = read_count(config, "crop_size");
  vit.patch = read_count(config, "patch_size");
  if (vit.side() < 1) config.fail_at("patch_size", "no patch fits into crop_size");
  return vit;
}

JepaConfig read_vjepa2(const Config& config) {
  JepaConfig c{read_part(config, ""), read_part(config, "pred_")};
  c.colours = read_count(config, "in_chans");
  c.frames = read_count(config, "frames_per_clip");
  c.tubelet = read_count(config, "tubelet_size");
  if (c.frames % c.tubelet != 0)
    config.fail_at("frames_per_clip", "it is not a multiple of tubelet_size");
  c.mask_tokens = read_count(config, "pred_num_mask_tokens");
  need_boolean(config, {"qkv_bias"}, true);
  return c;
}

class Vjepa2 : public ImageModel {
 public:
  explicit Vjepa2(const Config& config) : config_(read_vjepa2(config)) {}

  void forward(Net& n, const std::string&) const override {
    n.rename({{"self_attn.q_proj", "attention.query"},
              {"self_attn.k_proj", "attention.key"},
              {"self_attn.v_proj", "attention.value"},
              {"self_attn.out_proj", "attention.proj"},
              {"layer_norm1", "norm1"},
              {"layer_norm2", "norm2"}});
    Value x = layers(n, "encoder", tubelets(n), config_.encoder);
    n.output("last_hidden_state", x);
    n.output("predictor_output.last_hidden_state", predict(n, x));
  }

  std::vector<std::string> results() const override {
    return {"last_hidden_state", "predictor_output.last_hidden_state"};
  }
  std::vector<RequestTensor> inputs() const override {
    const int64_t side = config_.encoder.image_size;
    return {{"pixel_values_videos", {config_.frames, config_.colours, side, side}}};
  }

 private:
  // The frames of a tubelet are further colours of one image.
  Value tubelets(Net& n) const {
    const int64_t side = config_.encoder.image_size, colours = config_.tubelet * config_.colours;
    const Expr videos = n.axis("B"), images = videos * config_.depth();
    const Value input = n.input("pixel_values_videos", DType::f32,
                                {videos, config_.frames, config_.colours, side, side});
    const Value image = n("transpose", "pixel_values_videos",
                          {{"x", n.reshape(input, {images, colours, side * side})},
                           {"out", std::string(name(n.limits().weights()))}});
    const int64_t channels = config_.encoder.hidden;
    const Value patches = patch_rows(n, kPatches, n.reshape(image, {images, side, side, colours}),
                                     channels, config_.encoder.patch, kernel(n));
    return n.reshape(patches, {videos, config_.tokens(), channels});
  }

  Value layers(Net& n, const std::string& path, Value x, const VitSizes& vit) const {
    begin_vit(n, vit);
    n.common({{"rotary_dim", 3 * axis_channels(vit)},
              {"interleaved", true},
              {"cos", table(n, path + ".cos", vit, true)},
              {"sin", table(n, path + ".sin", vit, false)}});
    for (int64_t i = 0; i < vit.layers; ++i) {
      n.tap(fmt::format("{}_hidden.{}", path, i), {x});
      x = n("vit_layer", fmt::format("{}.layer.{}", path, i), {{"x", x}});
    }
    return by_rows(n, "layer_norm", path + ".layernorm", x, {{"eps", vit.eps}});
  }

  // [tokens, channels that turn]: for each axis its angles twice, although neighbours turn
  // together. The published weights were trained with this table.
  Value table(Net& n, const std::string& name, const VitSizes& vit, bool cosine) const {
    const int64_t each = axis_channels(vit), side = vit.side(), tokens = config_.tokens();
    return computed(n, name, DType::f32, {tokens, 3 * each}, [=] {
      std::vector<double> all;
      for (int64_t t = 0; t < tokens; ++t) {
        const int64_t place[] = {t / (side * side), t / side % side, t % side};
        for (const int64_t p : place)
          for (int64_t i = 0; i < each; ++i) {
            const double share =
                static_cast<double>(i % (each / 2)) / static_cast<double>(each / 2);
            const double angle = static_cast<double>(p) / std::pow(10000.0, share);
            all.push_back(cosine ? std::cos(angle) : std::sin(angle));
          }
      }
      return all;
    });
  }

  // A mask token for each place, then the encoder's tokens; the same table serves both. The result
  // has the mask tokens alone.
  Value predict(Net& n, Value x) const {
    const Dims shape = n.shape(x);
    const int64_t tokens = config_.tokens(), width = config_.predictor.hidden;
    const Value context = n(
        "linear", "predictor.embeddings.predictor_embeddings",
        {{"out_features", width}, {"x", n.reshape(x, {shape[0] * tokens, config_.encoder.hidden})}},
        {"bias"});
    const int64_t kinds = config_.mask_tokens;
    const Value masks = parameter(n, "predictor.embeddings.mask_tokens", {kinds, 1, 1, width}, 1);
    const Value rows = computed(n, "predictor.embeddings.rows", DType::i32, {tokens}, [=] {
      return std::vector<double>(static_cast<size_t>(tokens), static_cast<double>(1 % kinds));
    });
    const Value targets = n("gather_rows", "predictor.embeddings.targets",
                            {{"x", n.reshape(masks, {kinds, width})}, {"rows", rows}});
    Value y = with_prefix(n, "predictor.embeddings", targets,
                          n.reshape(context, {shape[0], tokens, width}));
    y = layers(n, "predictor", y, config_.predictor);
    const Value predicted = n("prepend_rows", "predictor.targets",
                              {{"prefix_rows", 0}, {"x", n.slice(y, 1, 0, tokens)}});
    const Value out = n("linear", "predictor.proj",
                        {{"out_features", config_.encoder.hidden},
                         {"x", n.reshape(predicted, {shape[0] * tokens, width})}},
                        {"bias"});
    return n.reshape(out, shape);
  }

  // Checkpoints have the kernel as [O, colours, frames, rows, columns].
  Value kernel(Net& n) const {
    const int64_t patch = config_.encoder.patch, channels = config_.encoder.hidden;
    const int64_t colours = config_.colours, tubelet = config_.tubelet;
    WeightSpec spec;
    spec.name = std::string(kPatches) + ".weight";
    spec.dtype = n.limits().weights();
    spec.shape = {channels, tubelet, colours, patch, patch};
    spec.parts = {{spec.name}};
    spec.stddev = 1 / std::sqrt(static_cast<double>(tubelet * colours * patch * patch));
    PartView view;
    view.shape = {channels, colours, tubelet, patch, patch};
    view.length = channels;
    view.order = {0, 2, 1, 3, 4};
    spec.view = view;
    return n.reshape(n.weight(spec), {channels, tubelet * colours, patch, patch});
  }

  static constexpr const char* kPatches = "encoder.embeddings.patch_embeddings.proj";
  JepaConfig config_;
};

std::unique_ptr<Model> make_vjepa2(const Config& config) {
  return std::make_unique<Vjepa2>(config);
}

FK_MODEL(vjepa2, make_vjepa2, {"VJEPA2Model"}, {"vjepa2"},
         {"attention_dropout", "attention_probs_dropout_prob", "drop_path_rate",
          "initializer_range", "num_pooler_layers", "pred_zero_init_mask_tokens"});

}  // namespace
}  // namespace fk
