// SPDX-License-Identifier: Apache-2.0
// SigLIP 2's vision tower. A request has the patches of an image as rows. With the key `image_size`
// all images are square. With `max_num_patches` they have any shape and are padded to this number
// of patches. A request then has its rows and columns of patches, and a mask. fk-host defines both
// keys. The position table is resized to each image.
#include <fmt/format.h>

#include <cmath>

#include "baselines/models/parts/sizes.hpp"
#include "baselines/models/parts/vit.hpp"

namespace fk {
namespace {

using namespace parts;

struct SiglipConfig {
  VitSizes vit;
  int64_t colours = 0, grid = 0;      // grid: rows and columns of the position table
  int64_t patches = 0;                // of a request
  bool ragged = false, head = false;  // head: the pooler
  int64_t patch_width() const { return colours * vit.patch * vit.patch; }
};

SiglipConfig read_siglip2(const Config& config) {
  SiglipConfig c;
  c.vit = read_vit(config, /*gated=*/false);
  c.vit.eps = config.number("layer_norm_eps");
  c.vit.patch = read_count(config, "patch_size");
  c.colours = read_count(config, "num_channels");
  const int64_t table = read_size(config, "num_patches");
  c.grid = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(table))));
  if (c.grid * c.grid != table) config.fail_at("num_patches", "it is not the square of a number");
  c.head = config.boolean("vision_use_head", true);
  c.ragged = config.has("max_num_patches");
  if (c.ragged) {
    c.patches = read_count(config, "max_num_patches");
    return c;
  }
  const int64_t size = config.integer("image_size", c.grid * c.vit.patch);
  c.vit.image_size = bounded(config, "image_size", size, kCountMax);
  if (size % c.vit.patch != 0) config.fail_at("image_size", "it is not a multiple of patch_size");
  c.patches = c.vit.side() * c.vit.side();
  return c;
}

class Siglip2 : public ImageModel {
 public:
  explicit Siglip2(const Config& config) : config_(read_siglip2(config)) {}

  void forward(Net& n, const std::string&) const override {
    const VitSizes& vit = config_.vit;
    const Expr images = n.axis("B");
    n.rename({{"post", "post_layernorm"}});
    n.adapt([this](WeightSpec& spec) { cut_projection(spec); });
    const Value sizes =
        config_.ragged ? n.input("spatial_shapes", DType::f32, {images, 2}) : Value{};
    Value x = embed(n, images, sizes);
    begin_vit(n, vit);
    const Value mask = config_.ragged ? key_mask(n, images) : Value{};
    for (int64_t i = 0; i < vit.layers; ++i) {
      n.tap(fmt::format("hidden.{}", i), {x});
      x = n("vit_layer", fmt::format("encoder.layers.{}", i), {{"x", x}, {"mask", mask}});
    }
    n.tap(fmt::format("hidden.{}", vit.layers), {x});
    x = by_rows(n, "layer_norm", "post", x, {{"eps", vit.eps}});
    n.output("last_hidden_state", x);
    if (config_.head) n.output("pooler_output", pool(n, images, x, mask));
  }

  std::vector<std::string> results() const override {
    std::vector<std::string> names = {"last_hidden_state"};
    if (config_.head) names.emplace_back("pooler_output");
    return names;
  }
  std::vector<RequestTensor> inputs() const override {
    std::vector<RequestTensor> all = {{"pixel_values", {config_.patches, config_.patch_width()}}};
    if (!config_.ragged) return all;
    all.push_back({"pixel_attention_mask", {config_.patches}});
    all.push_back({"spatial_shapes", {2}});
    return all;
  }

 private:
  Value embed(Net& n, const Expr& images, Value sizes) const {
    const int64_t channels = config_.vit.hidden, patches = config_.patches, grid = config_.grid;
    const Expr rows = images * patches;
    const Value pixels =
        n.input("pixel_values", DType::f32, {images, patches, config_.patch_width()});
    const Value patch = n("linear", "embeddings.patch_embedding",
                          {{"out_features", channels},
                           {"x", n.reshape(pixels, {rows, config_.patch_width()})},
                           {"out", std::string(name(n.limits().weights()))}},
                          {"bias"});
    const Value table =
        n.reshape(parameter(n, "embeddings.position_embedding.weight", {grid * grid, channels}, 1),
                  {1, grid, grid, channels});
    const int64_t high = config_.ragged ? 1 : config_.vit.side();
    const Value places = n.empty(n.dtype(patch), {images, high, patches / high, channels});
    n("resize2d", "embeddings.positions",
      {{"mode", "bilinear"}, {"antialias", true}, {"x", table}, {"sizes", sizes}, {"out", places}});
    const Value sum =
        n("add", "embeddings.sum", {{"a", patch}, {"b", n.reshape(places, {rows, channels})}});
    return n.reshape(sum, {images, patches, channels});
  }

  // [B, 1, patches]: 0 where the request's mask is 1, and a number that hides a key where it is 0.
  Value key_mask(Net& n, const Expr& images) const {
    const Value given = n.input("pixel_attention_mask", DType::f32, {images, config_.patches});
    const auto table = [&](const char* name, double value) {
      return computed(n, std::string("mask.") + name, DType::f32, {1},
                      [=] { return std::vector<double>{value}; });
    };
    constexpr double kFar = 1 << 30;
    const Value mask = n("linear", "mask",
                         {{"in_features", 1},
                          {"out_features", 1},
                          {"weight", n.reshape(table("weight", kFar), {1, 1})},
                          {"bias", table("bias", -kFar)},
                          {"x", n.reshape(given, {images * config_.patches, 1})}});
    return n.reshape(mask, {images, 1, config_.patches});
  }

  // Attention of one learned query over an image's tokens, then an MLP.
  Value pool(Net& n, const Expr& images, Value x, Value mask) const {
    const VitSizes& vit = config_.vit;
    const int64_t channels = vit.hidden, width = vit.head_dim();
    const Value probe = parameter(n, "head.probe", {1, 1, channels}, 1);
    const Value query = project(n, "head.attention.q", n.reshape(probe, {1, channels}), channels);
    const Value pairs = project(n, "head.attention.kv",
                                n.reshape(x, {images * config_.patches, channels}), 2 * channels);
    const Value both = n.reshape(pairs, {images, config_.patches, 2 * vit.heads, width});
    const Value mixed = n("biased_attention", "head.attention.attn",
                          {{"num_kv_heads", vit.heads},
                           {"q", n.reshape(same_rows(n, "head.attention.query", query, x),
                                           {images, 1, vit.heads, width})},
                           {"k", n.slice(both, 2, 0, vit.heads)},
                           {"v", n.slice(both, 2, vit.heads, vit.heads)},
                           {"mask", mask}});
    const Value y =
        project(n, "head.attention.out_proj", n.reshape(mixed, {images, channels}), channels);
    const Value normed = n("layer_norm", "head.layernorm", {{"x", y}});
    const Value wide = n("gelu_mlp", "head.mlp", {{"x", normed}}, {"fc1_bias", "fc2_bias"});
    return n("add", "head.sum", {{"a", y}, {"b", wide}});
  }
  static Value project(Net& n, const std::string& path, Value x, int64_t out) {
    return n("linear", path, {{"out_features", out}, {"x", x}}, {"bias"});
  }

  // In checkpoints, one tensor has the rows of q, k and v, as in torch's attention.
  void cut_projection(WeightSpec& spec) const {
    const int64_t channels = config_.vit.hidden;
    const std::string head = "head.attention.";
    for (const std::string part : {"q", "kv"}) {
      for (const std::string leaf : {"weight", "bias"}) {
        if (spec.name != head + part + "." + leaf) continue;
        spec.parts = {{head + "in_proj_" + leaf}};
        PartView view;
        view.shape = {3 * channels};
        view.order = {0};
        if (leaf == "weight") {
          view.shape.push_back(channels);
          view.order.push_back(1);
        }
        view.axis = 0;
        view.start = part == "q" ? 0 : channels;
        view.length = part == "q" ? channels : 2 * channels;
        spec.view = view;
      }
    }
  }

  SiglipConfig config_;
};

std::unique_ptr<Model> make_siglip2(const Config& config) {
  return std::make_unique<Siglip2>(config);
}

FK_MODEL(siglip2, make_siglip2, {"Siglip2VisionModel"}, {"siglip2_vision_model"},
         {"attention_dropout", "initializer_range"});

}  // namespace
}  // namespace fk
