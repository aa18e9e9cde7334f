// SPDX-License-Identifier: Apache-2.0
// RT-DETRv2: a residual network, whose last three maps are fused with one another. 300 pixels of
// the fused maps become queries. Layers then move the queries' boxes. The result is a box and the
// logits of classes for each query.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "baselines/models/parts/image.hpp"
#include "baselines/models/parts/sizes.hpp"
#include "baselines/models/parts/vit.hpp"
#include "core/base/error.hpp"

namespace fk {
namespace {

using namespace parts;
using Numbers = std::vector<double>;

// One residual block of the backbone.
struct ResidualBlock {
  std::string path;
  int64_t in, out, stride;
};
struct DetrConfig {
  int64_t colours = 0, image_size = 0;
  // The backbone: widths of the stem and of its stages.
  int64_t stem = 0;
  bool bottleneck = true, stride_first = false;
  std::string residual_activation;
  std::vector<std::vector<ResidualBlock>> stages;
  // Fusion of the last `levels` maps.
  int64_t levels = 0, hidden = 0, encoder_heads = 0, encoder_mlp = 0, encoder_layers = 0;
  std::vector<int64_t> attended;
  double theta = 0, expansion = 0, batch_eps = 0, layer_eps = 0;
  bool places = true;
  std::string activation;
  // The decoder.
  int64_t width = 0, heads = 0, mlp = 0, layers = 0, points = 0, queries = 0, classes = 0;
  double offset_scale = 0;
  bool denoising = false;

  int64_t side(int64_t level) const { return image_size / 8 >> level; }
  int64_t pixels() const {
    int64_t all = 0;
    for (int64_t level = 0; level < levels; ++level) all += side(level) * side(level);
    return all;
  }
};

// The backbone's values of absent keys, as in transformers.
Json backbone_defaults() {
  return {{"num_channels", 3},
          {"embedding_size", 64},
          {"hidden_sizes", {256, 512, 1024, 2048}},
          {"depths", {3, 4, 6, 3}},
          {"layer_type", "bottleneck"},
          {"hidden_act", "relu"},
          {"downsample_in_first_stage", false},
          {"downsample_in_bottleneck", false}};
}

void read_backbone(const Config& config, DetrConfig& c) {
  c.colours = read_count(config, "num_channels");
  c.stem = read_size(config, "embedding_size");
  need_boolean(config, {"downsample_in_first_stage"}, false);
  c.stride_first = config.boolean("downsample_in_bottleneck");
  c.residual_activation = config.text("hidden_act");
  const std::string kind = config.text("layer_type");
  if (kind != "bottleneck" && kind != "basic")
    config.fail_at("layer_type", "`" + excerpt(kind) + "` is not known", "basic, bottleneck");
  c.bottleneck = kind == "bottleneck";
  const auto sizes = config.integers("hidden_sizes"), depths = config.integers("depths");
  if (sizes.size() != 4 || depths.size() != 4)
    config.fail_at("hidden_sizes", "it and depths need one number for each of four stages");
  int64_t in = c.stem;
  for (size_t s = 0; s < sizes.size(); ++s) {
    bounded(config, "hidden_sizes", sizes[s], kSizeMax);
    bounded(config, "depths", depths[s], kCountMax);
    if (c.bottleneck && sizes[s] % 4 != 0)
      config.fail_at("hidden_sizes", "bottlenecks need multiples of 4");
    auto& stage = c.stages.emplace_back();
    for (int64_t i = 0; i < depths[s]; ++i, in = sizes[s])
      stage.push_back({fmt::format("model.backbone.model.encoder.stages.{}.layers.{}", s, i), in,
                       sizes[s], s > 0 && i == 0 ? 2 : 1});
  }
  if (!c.bottleneck && sizes[0] != c.stem)
    config.fail_at("embedding_size", "with layer_type basic it must be the first of hidden_sizes");
  if (config.texts("out_features", {"stage2", "stage3", "stage4"}) !=
      std::vector<std::string>{"stage2", "stage3", "stage4"})
    config.fail_at("out_features", "it must be the last three stages");
  if (config.integers("out_indices", {2, 3, 4}) != std::vector<int64_t>{2, 3, 4})
    config.fail_at("out_indices", "it must be [2, 3, 4]");
}

void read_fusion(const Config& config, DetrConfig& c) {
  c.levels = 3;
  for (const char* key : {"encoder_in_channels", "decoder_in_channels", "feat_strides"})
    if (config.integers(key).size() != 3) config.fail_at(key, "it needs three numbers");
  for (const char* key : {"num_feature_levels", "decoder_n_levels"})
    if (config.integer(key) != c.levels) config.fail_at(key, "only 3 is supported");
  if (config.integers("feat_strides") != std::vector<int64_t>{8, 16, 32})
    config.fail_at("feat_strides", "only [8, 16, 32] is supported");
  c.hidden = read_size(config, "encoder_hidden_dim");
  for (size_t i = 0; i < 3; ++i) {
    if (config.integers("encoder_in_channels")[i] != c.stages[i + 1].back().out)
      config.fail_at("encoder_in_channels", "it must be the last three of hidden_sizes");
    if (config.integers("decoder_in_channels")[i] != c.hidden)
      config.fail_at("decoder_in_channels", "each must be encoder_hidden_dim");
  }
  c.encoder_heads = read_count(config, "encoder_attention_heads");
  c.encoder_mlp = read_size(config, "encoder_ffn_dim");
  c.encoder_layers = config.integer("encoder_layers");
  if (c.encoder_layers < 0 || c.encoder_layers > kCountMax)
    config.fail_at("encoder_layers", "it must be between 0 and " + std::to_string(kCountMax));
  c.attended = config.integers("encode_proj_layers");
  for (const int64_t level : c.attended)
    if (level < 0 || level >= c.levels) config.fail_at("encode_proj_layers", "there are 3 maps");
  if (c.hidden % 4 != 0 || c.hidden % c.encoder_heads != 0)
    config.fail_at("encoder_hidden_dim", "it must be a multiple of 4 and of the heads");
  c.theta = config.number("positional_encoding_temperature");
  if (!(c.theta > 1)) config.fail_at("positional_encoding_temperature", "it must exceed 1");
  c.places = !config.has("eval_size");
  c.expansion = config.number("hidden_expansion");
  if (!(c.expansion > 0 && c.expansion <= 64))
    config.fail_at("hidden_expansion", "it must be between 0 and 64");
  c.activation = config.text("activation_function");
  need_text(config, "encoder_activation_function", "gelu");
  need_boolean(config, {"normalize_before"}, false);
}

DetrConfig read_rtdetrv2(const Config& config) {
  DetrConfig c;
  read_backbone(config.child("backbone_config").or_else(backbone_defaults()), c);
  c.batch_eps = config.number("batch_norm_eps");
  c.layer_eps = config.number("layer_norm_eps");
  read_fusion(config, c);
  c.image_size = config.integer("image_size", 640);
  if (c.image_size < 32 || c.image_size > kCountMax || c.image_size % 32 != 0)
    config.fail_at("image_size", "it must be a multiple of 32");
  if (config.has("anchor_image_size") &&
      config.integers("anchor_image_size") != std::vector<int64_t>{c.image_size, c.image_size})
    config.fail_at("anchor_image_size", "it must be image_size twice");
  c.width = read_size(config, "d_model");
  c.heads = read_count(config, "decoder_attention_heads");
  if (c.width % c.heads != 0)
    config.fail_at("decoder_attention_heads", "d_model is not a multiple of it");
  c.mlp = read_size(config, "decoder_ffn_dim");
  c.layers = read_count(config, "decoder_layers");
  c.points = read_count(config, "decoder_n_points");
  c.queries = read_count(config, "num_queries");
  if (c.queries > c.pixels())
    config.fail_at("num_queries", fmt::format("the maps have only {} pixels", c.pixels()));
  c.offset_scale = config.number("decoder_offset_scale");
  need_text(config, "decoder_method", "default");
  need_text(config, "decoder_activation_function", "relu");
  need_boolean(config, {"learn_initial_query"}, false);
  c.denoising = config.integer("num_denoising") > 0;
  c.classes = config.has("id2label") ? static_cast<int64_t>(config.child("id2label").keys().size())
                                     : config.integer("num_labels", 80);
  bounded(config, "num_labels", c.classes, kSizeMax);
  return c;
}

class RtDetrV2 : public Model {
 public:
  explicit RtDetrV2(const Config& config) : config_(read_rtdetrv2(config)) {}

  std::unique_ptr<Engine> engine() const override {
    const int64_t side = config_.image_size;
    return feedforward_engine({.phase = "detect",
                               .outputs = {"logits", "pred_boxes"},
                               .inputs = {{"pixel_values", {config_.colours, side, side}}}});
  }

  void forward(Net& n, const std::string&) const override {
    n.adapt(name_of);
    n.common({{"num_levels", config_.levels}, {"num_points", config_.points}});
    std::vector<Value> maps = backbone(n);
    fuse(n, maps);
    const Value memory = join(n, maps);
    Value boxes;
    const Value queries = choose(n, memory, boxes);
    decode(n, memory, queries, boxes);
  }

  std::vector<Unread> unread() const override {
    std::vector<Unread> list;
    if (config_.denoising)
      list.push_back({"model.denoising_class_embed.", "a table of the training"});
    for (int64_t i = 0; i < config_.layers; ++i) {
      list.push_back({fmt::format("model.decoder.layers.{}.encoder_attn.n_points_scale", i),
                      "a constant of the configuration"});
      if (i + 1 < config_.layers)
        list.push_back({fmt::format("model.decoder.class_embed.{}.", i), "a head of the training"});
      for (const char* head : {"class_embed", "bbox_embed"})
        list.push_back({fmt::format("{}.{}.", head, i), "a second name of a head"});
    }
    return list;
  }

 private:
  // conv_norm_act has the names of one library; each part of this model has other ones.
  static void name_of(WeightSpec& spec) {
    const bool stages = spec.name.starts_with("model.backbone");
    const bool projection = spec.name.find("_input_proj.") != std::string::npos;
    const auto put = [&](const std::string& from, const std::string& to) {
      const size_t at = spec.name.rfind(from);
      if (at != std::string::npos) spec.name.replace(at, from.size(), to);
    };
    put(".bn.", stages ? ".normalization." : projection ? ".1." : ".norm.");
    if (stages) put(".conv.", ".convolution.");
    if (projection) put(".conv.", ".0.");
  }

  Value linear(Net& n, const std::string& path, Value x, int64_t out, bool wide = false) const {
    Args args = {{"out_features", out}, {"x", x}};
    if (wide) args.emplace_back("out", std::string("f32"));
    return n("linear", path, args, {"bias"});
  }
  // Products with relu between them. The last one is float32, because boxes are.
  Value mlp(Net& n, const std::string& path, Value x, std::vector<int64_t> sizes, bool wide) const {
    for (size_t i = 0; i < sizes.size(); ++i) {
      const bool last = i + 1 == sizes.size();
      x = linear(n, fmt::format("{}.layers.{}", path, i), x, sizes[i], wide && last);
      if (!last)
        x = n("activation", fmt::format("{}.relu.{}", path, i), {{"kind", "relu"}, {"x", x}});
    }
    return x;
  }
  Value norm(Net& n, const std::string& path, Value x, Value residual) const {
    Args args = {{"x", x}, {"eps", config_.layer_eps}};
    if (residual) args.emplace_back("residual", residual);
    return n("layer_norm", path, args);
  }

  // The maps of the last three stages, in as many channels as the fusion has.
  std::vector<Value> backbone(Net& n) const {
    const std::string path = "model.backbone.model.embedder";
    Value x = pixels(n, config_.colours, config_.image_size, config_.image_size);
    for (int i = 0; i < 3; ++i)
      x = conv_norm(n, fmt::format("{}.embedder.{}", path, i), x,
                    {.channels = i < 2 ? config_.stem / 2 : config_.stem,
                     .kernel = 3,
                     .stride = i == 0 ? 2 : 1,
                     .activation = config_.residual_activation});
    x = pool(n, path + ".pooler", x, "max", 3, 1);
    std::vector<Value> maps;
    for (size_t s = 0; s < config_.stages.size(); ++s) {
      for (const auto& block : config_.stages[s]) x = residual(n, block, x);
      if (s == 0) continue;
      maps.push_back(conv_norm(n, fmt::format("model.encoder_input_proj.{}", s - 1), x,
                               {.channels = config_.hidden}));
    }
    return maps;
  }
  // Halves the image.
  static Value pool(Net& n, const std::string& path, Value x, const char* kind, int64_t kernel,
                    int64_t padding) {
    const auto twice = [](int64_t v) { return std::vector<int64_t>{v, v}; };
    return n("pool2d", path,
             {{"kind", kind},
              {"kernel_size", twice(kernel)},
              {"stride", twice(2)},
              {"padding", twice(padding)},
              {"x", x}});
  }
  Value residual(Net& n, const ResidualBlock& b, Value x) const {
    const std::string act = config_.residual_activation;
    Value shortcut = x;
    const bool halved = config_.bottleneck ? b.stride == 2 : b.in != b.out;
    if (halved) shortcut = pool(n, b.path + ".shortcut.0", x, "average", 2, 0);
    const bool first = b.path.ends_with(".0");
    if (config_.bottleneck ? b.in != b.out || b.stride != 1 : first)
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
    if (config_.bottleneck) {
      layer(0, b.out / 4, 1, config_.stride_first ? b.stride : 1, false);
      layer(1, b.out / 4, 3, config_.stride_first ? 1 : b.stride, false);
      layer(2, b.out, 1, 1, true);
    } else {
      layer(0, b.out, 3, b.stride, false);
      layer(1, b.out, 3, 1, true);
    }
    return by_rows(n, "activation", b.path + ".activation",
                   sum_images(n, b.path + ".sum", y, shortcut), {{"kind", act}});
  }

  // Attention over the smallest map, then maps are fused from the smallest to the largest one, and
  // back.
  void fuse(Net& n, std::vector<Value>& maps) const {
    const std::string path = "model.encoder.";
    if (config_.encoder_layers > 0)
      for (size_t i = 0; i < config_.attended.size(); ++i) {
        Value& map = maps[static_cast<size_t>(config_.attended[i])];
        map = attend(n, fmt::format("{}encoder.{}", path, i), map);
      }
    const size_t last = maps.size() - 1;
    for (size_t i = 0; i < last; ++i) {
      Value& small = maps[last - i];
      small = conv(n, fmt::format("{}lateral_convs.{}", path, i), small, config_.hidden, 1, 1);
      const Dims shape = n.shape(small);
      const Value large = n.empty(n.dtype(small), {shape[0], shape[1] * 2, shape[2] * 2, shape[3]});
      n("resize2d", fmt::format("{}upsample.{}", path, i),
        {{"mode", "nearest"}, {"x", small}, {"out", large}});
      Value& map = maps[last - i - 1];
      map = csp(n, fmt::format("{}fpn_blocks.{}", path, i), large, map);
    }
    for (size_t i = 0; i < last; ++i) {
      const Value half =
          conv(n, fmt::format("{}downsample_convs.{}", path, i), maps[i], config_.hidden, 3, 2);
      maps[i + 1] = csp(n, fmt::format("{}pan_blocks.{}", path, i), half, maps[i + 1]);
    }
    for (size_t i = 0; i < maps.size(); ++i) n.tap(fmt::format("map.{}", i), {maps[i]});
  }
  Value conv(Net& n, const std::string& path, Value x, int64_t channels, int64_t kernel,
             int64_t stride, bool act = true) const {
    return conv_norm(n, path, x,
                     {.channels = channels,
                      .kernel = kernel,
                      .stride = stride,
                      .activation = act ? config_.activation : "none",
                      .eps = config_.batch_eps});
  }
  // Two maps of one size, fused: one path with blocks of a wide and a narrow convolution.
  Value csp(Net& n, const std::string& path, Value a, Value b) const {
    const Dims shape = n.shape(a);
    const Expr rows = shape[0] * shape[1] * shape[2];
    const auto narrow =
        static_cast<int64_t>(static_cast<double>(config_.hidden) * config_.expansion);
    const Value both = n.empty(n.dtype(a), {rows, 2 * config_.hidden});
    n("concat", path + ".concat",
      {{"num_parts", 2},
       {"size", config_.hidden},
       {"x", std::vector<Value>{n.reshape(a, {rows, config_.hidden}),
                                n.reshape(b, {rows, config_.hidden})}},
       {"out", both}});
    const Value x = n.reshape(both, {shape[0], shape[1], shape[2], 2 * config_.hidden});
    Value y = conv(n, path + ".conv1", x, narrow, 1, 1);
    for (int i = 0; i < 3; ++i) {
      const std::string block = fmt::format("{}.bottlenecks.{}", path, i);
      const Value wide = conv(n, block + ".conv1", y, narrow, 3, 1, false);
      const Value point = conv(n, block + ".conv2", y, narrow, 1, 1, false);
      y = by_rows(n, "activation", block + ".activation",
                  sum_images(n, block + ".sum", wide, point), {{"kind", config_.activation}});
    }
    y = sum_images(n, path + ".sum", y, conv(n, path + ".conv2", x, narrow, 1, 1));
    return narrow == config_.hidden ? y : conv(n, path + ".conv3", y, config_.hidden, 1, 1);
  }

  // Softmax attention of each image's rows x [B*T, C], where queries and keys see x + place.
  Value attention(Net& n, const std::string& path, Value x, Value placed, int64_t tokens,
                  int64_t heads) const {
    const Dims rows = n.shape(x);
    const int64_t channels = rows[1].value(), width = channels / heads;
    const Dims split = {rows[0] / tokens, tokens, heads, width};
    const auto part = [&](const char* name, Value from) {
      return n.reshape(linear(n, path + name, from, channels), split);
    };
    const Value mixed = n("biased_attention", path + ".attn",
                          {{"num_heads", heads},
                           {"num_kv_heads", heads},
                           {"head_dim", width},
                           {"scale", 1 / std::sqrt(static_cast<double>(width))},
                           {"q", part(".q_proj", placed)},
                           {"k", part(".k_proj", placed)},
                           {"v", part(".v_proj", x)}});
    return linear(n, path + ".out_proj", n.reshape(mixed, rows), channels);
  }
  Value attend(Net& n, const std::string& path, Value map) const {
    const Dims shape = n.shape(map);
    const int64_t side = shape[1].value(), tokens = side * side, channels = config_.hidden;
    Value x = n.reshape(map, {shape[0] * tokens, channels});
    const Value table = config_.places ? places(n, path, x, tokens) : Value{};
    for (int64_t i = 0; i < config_.encoder_layers; ++i) {
      const std::string layer = fmt::format("{}.layers.{}", path, i);
      const Value placed = table ? n("add", layer + ".placed", {{"a", x}, {"b", table}}) : x;
      x = norm(n, layer + ".self_attn_layer_norm",
               attention(n, layer + ".self_attn", x, placed, tokens, config_.encoder_heads), x);
      const Value wide =
          n("gelu_mlp", layer, {{"intermediate_size", config_.encoder_mlp}, {"x", x}},
            {"fc1_bias", "fc2_bias"});
      x = norm(n, layer + ".final_layer_norm", wide, x);
    }
    return n.reshape(x, shape);
  }
  // [B*T, C]: sines and cosines of each pixel's row and column, the same for each image.
  Value places(Net& n, const std::string& path, Value x, int64_t tokens) const {
    const Expr images = n.shape(x)[0] / tokens;
    const int64_t channels = config_.hidden;
    const double theta = config_.theta;
    const Value table = computed(n, path + ".places", n.dtype(x), {tokens, channels}, [=] {
      const auto side = static_cast<int64_t>(std::lround(std::sqrt(tokens)));
      const int64_t each = channels / 4;
      Numbers all;
      for (int64_t t = 0; t < tokens; ++t)
        for (int64_t c = 0; c < channels; ++c) {
          const auto at = static_cast<double>(c < 2 * each ? t / side : t % side);
          const double angle =
              at / std::pow(theta, static_cast<double>(c % each) / static_cast<double>(each));
          all.push_back(c / each % 2 == 0 ? std::sin(angle) : std::cos(angle));
        }
      return all;
    });
    // A table before one row of each image, then the table alone.
    const Value behind = with_prefix(n, path + ".table", table,
                                     n.slice(n.reshape(x, {images, tokens, channels}), 1, 0, 1));
    const Value alone = n("prepend_rows", path + ".tables",
                          {{"prefix_rows", 0}, {"x", n.slice(behind, 1, 0, tokens)}});
    return n.reshape(alone, n.shape(x));
  }

  // [B, S, C]: the pixels of all maps, from the largest map on.
  Value join(Net& n, const std::vector<Value>& maps) const {
    Value all;
    int64_t before = 0;
    for (size_t i = 0; i < maps.size(); ++i) {
      const Value map = conv_norm(n, fmt::format("model.decoder_input_proj.{}", i), maps[i],
                                  {.channels = config_.width, .eps = config_.batch_eps});
      const Dims shape = n.shape(map);
      const Value rows = n.reshape(map, {shape[0], shape[1] * shape[2], shape[3]});
      if (i == 0)
        all = rows;
      else
        all = n("prepend_rows", fmt::format("model.memory.{}", i),
                {{"prefix_rows", before}, {"before", all}, {"x", rows}});
      before += config_.side(static_cast<int64_t>(i)) * config_.side(static_cast<int64_t>(i));
    }
    return all;
  }

  // The logits of a box around each pixel [S, 4], and which boxes lie inside of the image.
  Numbers anchors(bool inside) const {
    Numbers all;
    for (int64_t level = 0; level < config_.levels; ++level) {
      const int64_t side = config_.side(level);
      for (int64_t i = 0; i < side * side; ++i) {
        const double size = std::ldexp(0.05, static_cast<int>(level)),
                     wide = static_cast<double>(side);
        const double box[] = {(static_cast<double>(i % side) + 0.5) / wide,
                              (static_cast<double>(i / side) + 0.5) / wide, size, size};
        const bool valid = std::ranges::all_of(box, [](double v) { return v > 0.01 && v < 0.99; });
        if (inside) {
          all.push_back(valid ? 1 : 0);
          continue;
        }
        // A sigmoid of 1, which needs no more than a half float.
        for (const double v : box) all.push_back(valid ? std::log(v / (1 - v)) : 1e4);
      }
    }
    return all;
  }

  // The best pixels of each image as queries [B*Q, C]; `boxes` [B*Q, 4] in float32.
  Value choose(Net& n, Value memory, Value& boxes) const {
    const int64_t pixels = config_.pixels(), channels = config_.width, queries = config_.queries;
    const Dims shape = n.shape(memory);
    const Expr rows = shape[0] * pixels;
    Value x = n.reshape(memory, {rows, channels});
    const Numbers inside = anchors(true);
    if (std::ranges::find(inside, 0.0) != inside.end()) {
      const Value gate = computed(n, "model.inside", n.dtype(x), {pixels, channels}, [=] {
        Numbers all;
        for (const double v : inside) all.insert(all.end(), static_cast<size_t>(channels), v);
        return all;
      });
      x = n("scaled_add", "model.masked",
            {{"scale", 1.0}, {"gate_rows", 1}, {"y", x}, {"gate", gate}});
    }
    const Value seen =
        norm(n, "model.enc_output.1", linear(n, "model.enc_output.0", x, channels), {});
    const Value scores = linear(n, "model.enc_score_head", seen, config_.classes, true);
    const Outputs best = n("topk_rows", "model.best_class", {{"top_k", 1}, {"x", scores}});
    const Outputs chosen =
        n("topk_rows", "model.chosen",
          {{"top_k", queries}, {"x", n.reshape(best["values"], {shape[0], pixels})}});
    const auto flat = [&](const char* name) {
      return n.reshape(chosen[name], {shape[0] * queries});
    };
    const Value target = n("gather_rows", "model.queries", {{"x", seen}, {"rows", flat("rows")}});
    const Value table =
        computed(n, "model.anchors", DType::f32, {pixels, 4}, [this] { return anchors(false); });
    const Value around =
        n("gather_rows", "model.anchor_boxes", {{"x", table}, {"rows", flat("ids")}});
    const Value delta = mlp(n, "model.enc_bbox_head", target, {channels, channels, 4}, true);
    boxes = n(
        "activation", "model.boxes",
        {{"kind", "sigmoid"}, {"x", n("add", "model.box_logits", {{"a", delta}, {"b", around}})}});
    return target;
  }

  void decode(Net& n, Value memory, Value x, Value boxes) const {
    const int64_t channels = config_.width, queries = config_.queries;
    const Expr images = n.shape(memory)[0];
    n.common({{"spatial_shapes", shapes(n)}, {"level_start_index", starts(n)}});
    for (int64_t i = 0; i < config_.layers; ++i) {
      const std::string path = fmt::format("model.decoder.layers.{}", i);
      const Value place =
          mlp(n, "model.decoder.query_pos_head", boxes, {2 * channels, channels}, false);
      const auto placed = [&](const std::string& name, Value v) -> Value {
        return n("add", path + name, {{"a", v}, {"b", place}});
      };
      x = norm(n, path + ".self_attn_layer_norm",
               attention(n, path + ".self_attn", x, placed(".placed", x), queries, config_.heads),
               x);
      x = norm(n, path + ".encoder_attn_layer_norm",
               sample(n, path + ".encoder_attn", placed(".sampled", x), memory, boxes), x);
      const Value wide = n("activation", path + ".relu",
                           {{"kind", "relu"}, {"x", linear(n, path + ".fc1", x, config_.mlp)}});
      x = norm(n, path + ".final_layer_norm", linear(n, path + ".fc2", wide, channels), x);
      const Value delta =
          mlp(n, fmt::format("model.decoder.bbox_embed.{}", i), x, {channels, channels, 4}, true);
      boxes = n("box_refine", path + ".boxes", {{"delta", delta}, {"reference", boxes}});
      n.tap(fmt::format("hidden.{}", i), {n.reshape(x, {images, queries, channels})});
    }
    const Value logits = linear(n, fmt::format("model.decoder.class_embed.{}", config_.layers - 1),
                                x, config_.classes, true);
    n.output("logits", n.reshape(logits, {images, queries, config_.classes}));
    n.output("pred_boxes", n.reshape(boxes, {images, queries, 4}));
  }

  Value shapes(Net& n) const {
    return computed(n, "model.level_shapes", DType::i64, {config_.levels, 2}, [this] {
      Numbers all;
      for (int64_t i = 0; i < 2 * config_.levels; ++i)
        all.push_back(static_cast<double>(config_.side(i / 2)));
      return all;
    });
  }
  Value starts(Net& n) const {
    return computed(n, "model.level_starts", DType::i64, {config_.levels}, [this] {
      Numbers all = {0};
      for (int64_t i = 0; i + 1 < config_.levels; ++i)
        all.push_back(all.back() + static_cast<double>(config_.side(i) * config_.side(i)));
      return all;
    });
  }

  // Deformable attention of queries x [B*Q, C]: values of a few places around each query's box.
  Value sample(Net& n, const std::string& path, Value x, Value memory, Value boxes) const {
    const int64_t heads = config_.heads, channels = config_.width, queries = config_.queries;
    const int64_t places = config_.levels * config_.points;
    const Dims all = n.shape(memory);
    const Expr rows = n.shape(x)[0];
    const Value value =
        linear(n, path + ".value_proj", n.reshape(memory, {all[0] * all[1], channels}), channels);
    const Value offsets = linear(n, path + ".sampling_offsets", x, heads * places * 2, true);
    const Value weights =
        n("softmax", path + ".softmax",
          {{"x", n.reshape(linear(n, path + ".attention_weights", x, heads * places),
                           {rows * heads, places})}});
    // centre + scale * offset * size: the centre once for each offset, the size once for a query.
    const Value box = n.reshape(boxes, {rows, 2, 2});
    const auto same = [&](const char* name, double row, int64_t times) -> Value {
      const Value row_of = computed(n, "model.decoder" + std::string(name), DType::i32, {times},
                                    [=] { return Numbers(static_cast<size_t>(times), row); });
      return n("select_rows", path + name, {{"x", box}, {"rows", row_of}});
    };
    const Value centre = same(".centres", 0, heads * places), size = same(".sizes", 1, 1);
    const Value locations =
        n("scaled_add", path + ".locations",
          {{"scale", config_.offset_scale / static_cast<double>(config_.points)},
           {"gate_rows", heads * places},
           {"x", n.reshape(centre, {rows * (heads * places), 2})},
           {"y", n.reshape(offsets, {rows * (heads * places), 2})},
           {"gate", n.reshape(size, {rows, 2})}});
    const Value mixed =
        n("ms_deform_attn", path + ".attn",
          {{"num_heads", heads},
           {"head_dim", channels / heads},
           {"value", n.reshape(value, {all[0], all[1], heads, channels / heads})},
           {"sampling_locations",
            n.reshape(locations, {all[0], queries, heads, config_.levels, config_.points, 2})},
           {"attention_weights",
            n.reshape(weights, {all[0], queries, heads, config_.levels, config_.points})}});
    return linear(n, path + ".output_proj", n.reshape(mixed, {rows, channels}), channels);
  }

  DetrConfig config_;
};

std::unique_ptr<Model> make_rtdetrv2(const Config& config) {
  return std::make_unique<RtDetrV2>(config);
}

FK_MODEL(rtdetrv2, make_rtdetrv2, {"RTDetrV2ForObjectDetection"}, {"rt_detr_v2"},
         {"activation_dropout",
          "auxiliary_loss",
          "box_noise_scale",
          "dropout",
          "eos_coefficient",
          "focal_loss_alpha",
          "focal_loss_gamma",
          "freeze_backbone_batch_norms",
          "initializer_bias_prior_prob",
          "is_encoder_decoder",
          "label_noise_ratio",
          "matcher_alpha",
          "matcher_bbox_cost",
          "matcher_class_cost",
          "matcher_gamma",
          "matcher_giou_cost",
          "stage_names",
          "tie_word_embeddings",
          "use_focal_loss",
          "weight_loss_bbox",
          "weight_loss_giou",
          "weight_loss_vfl",
          "with_box_refine"});

}  // namespace
}  // namespace fk
