// SPDX-License-Identifier: Apache-2.0
// RT-DETRv2: a residual network, whose last three maps are fused with one another. 300 pixels of
// the fused maps become queries. Layers then move the queries' boxes. The result is a box and the
// logits of classes for each query.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "baselines/models/parts/detection.hpp"
#include "baselines/models/parts/residual_net.hpp"
#include "baselines/models/parts/sizes.hpp"
#include "baselines/models/parts/vit.hpp"
#include "core/base/error.hpp"

namespace fk {
namespace {

using namespace parts;
using Numbers = std::vector<double>;

struct DetrConfig {
  int64_t image_size = 0;
  ResidualNet backbone;
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

  int64_t narrow() const { return static_cast<int64_t>(static_cast<double>(hidden) * expansion); }
  int64_t side(int64_t level) const { return image_size / 8 >> level; }
  std::vector<int64_t> sides() const {
    std::vector<int64_t> all;
    for (int64_t level = 0; level < levels; ++level) all.push_back(side(level));
    return all;
  }
  int64_t pixels() const {
    int64_t all = 0;
    for (int64_t level = 0; level < levels; ++level) all += side(level) * side(level);
    return all;
  }
};

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
    if (config.integers("encoder_in_channels")[i] != c.backbone.stages[i + 1].back().out)
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
  if (c.narrow() < 1) config.fail_at("hidden_expansion", "no channel is left");
  c.activation = config.text("activation_function");
  need_text(config, "encoder_activation_function", "gelu");
  need_boolean(config, {"normalize_before"}, false);
}

DetrConfig read_rtdetrv2(const Config& config) {
  DetrConfig c;
  c.backbone = read_residual_net(config.child("backbone_config"), "model.backbone.model");
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
    return feedforward_engine(
        {.phase = "detect",
         .outputs = {"logits", "pred_boxes"},
         .inputs = {{"pixel_values", {config_.backbone.colours, side, side}}}});
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

  // In the dtype of x, or in another one.
  Value linear(Net& n, const std::string& path, Value x, int64_t out, DType dtype) const {
    return n("linear", path, {{"out_features", out}, {"x", x}, {"out", std::string(name(dtype))}},
             {"bias"});
  }
  Value linear(Net& n, const std::string& path, Value x, int64_t out) const {
    return linear(n, path, x, out, n.dtype(x));
  }
  // Products in this dtype, with relu between them.
  Value mlp(Net& n, const std::string& path, Value x, const std::vector<int64_t>& sizes,
            DType dtype) const {
    for (size_t i = 0; i < sizes.size(); ++i) {
      const bool last = i + 1 == sizes.size();
      x = linear(n, fmt::format("{}.layers.{}", path, i), x, sizes[i], dtype);
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
    std::vector<Value> maps =
        residual_net(n, config_.backbone,
                     pixels(n, config_.backbone.colours, config_.image_size, config_.image_size));
    maps.erase(maps.begin());
    for (size_t i = 0; i < maps.size(); ++i)
      maps[i] = conv_norm(n, fmt::format("model.encoder_input_proj.{}", i), maps[i],
                          {.channels = config_.hidden});
    return maps;
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
  }
  Value conv(Net& n, const std::string& path, Value x, int64_t channels, int64_t kernel,
             int64_t stride) const {
    return conv_norm(n, path, x,
                     {.channels = channels,
                      .kernel = kernel,
                      .stride = stride,
                      .activation = config_.activation,
                      .eps = config_.batch_eps});
  }
  // Two maps of one size, fused.
  Value csp(Net& n, const std::string& path, Value a, Value b) const {
    const Dims shape = n.shape(a);
    const Expr rows = shape[0] * shape[1] * shape[2];
    const int64_t channels = config_.hidden, narrow = config_.narrow();
    const Value both = n.empty(n.dtype(a), {rows, 2 * channels});
    n("concat", path + ".concat",
      {{"num_parts", 2},
       {"size", channels},
       {"x", std::vector<Value>{n.reshape(a, {rows, channels}), n.reshape(b, {rows, channels})}},
       {"out", both}});
    std::vector<std::string> with;
    if (narrow != channels) with.emplace_back("conv3");
    return n("csp_rep_layer", path,
             {{"middle_channels", narrow},
              {"out_channels", channels},
              {"activation", config_.activation},
              {"eps", config_.batch_eps},
              {"x", n.reshape(both, {shape[0], shape[1], shape[2], 2 * channels})}},
             with);
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
    const Value table = computed(n, path + ".places", n.dtype(x), {tokens, channels},
                                 [=] { return sines_of_pixels(tokens, channels, theta); });
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

  // The best pixels of each image as queries [B*Q, C]; `boxes` [B*Q, 4] in float32.
  Value choose(Net& n, Value memory, Value& boxes) const {
    const int64_t pixels = config_.pixels(), channels = config_.width, queries = config_.queries;
    const Dims shape = n.shape(memory);
    const Expr rows = shape[0] * pixels;
    Value x = n.reshape(memory, {rows, channels});
    const Numbers inside = anchor_boxes(config_.sides()).inside;
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
    const Value scores = linear(n, "model.enc_score_head", seen, config_.classes, DType::f32);
    const Outputs best = n("topk_rows", "model.best_class", {{"top_k", 1}, {"x", scores}});
    const Outputs chosen =
        n("topk_rows", "model.chosen",
          {{"top_k", queries}, {"x", n.reshape(best["values"], {shape[0], pixels})}});
    const auto flat = [&](const char* name) {
      return n.reshape(chosen[name], {shape[0] * queries});
    };
    const Value target = n("gather_rows", "model.queries", {{"x", seen}, {"rows", flat("rows")}});
    const Value table = computed(n, "model.anchors", DType::f32, {pixels, 4},
                                 [sides = config_.sides()] { return anchor_boxes(sides).logits; });
    const Value around =
        n("gather_rows", "model.anchor_boxes", {{"x", table}, {"rows", flat("ids")}});
    const Value delta = mlp(n, "model.enc_bbox_head", target, {channels, channels, 4}, DType::f32);
    boxes = n(
        "activation", "model.boxes",
        {{"kind", "sigmoid"}, {"x", n("add", "model.box_logits", {{"a", delta}, {"b", around}})}});
    return target;
  }

  void decode(Net& n, Value memory, Value x, Value boxes) const {
    const int64_t channels = config_.width, queries = config_.queries;
    const Expr images = n.shape(memory)[0];
    levels(n);
    for (int64_t i = 0; i < config_.layers; ++i) {
      const std::string path = fmt::format("model.decoder.layers.{}", i);
      const Value place =
          mlp(n, "model.decoder.query_pos_head", boxes, {2 * channels, channels}, n.dtype(x));
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
      const Value delta = mlp(n, fmt::format("model.decoder.bbox_embed.{}", i), x,
                              {channels, channels, 4}, DType::f32);
      boxes = n("box_refine", path + ".boxes", {{"delta", delta}, {"reference", boxes}});
      n.tap(fmt::format("hidden.{}", i), {n.reshape(x, {images, queries, channels})});
    }
    const Value logits = linear(n, fmt::format("model.decoder.class_embed.{}", config_.layers - 1),
                                x, config_.classes, DType::f32);
    n.output("logits", n.reshape(logits, {images, queries, config_.classes}));
    n.output("pred_boxes", n.reshape(boxes, {images, queries, 4}));
  }

  // Sides of the maps, and where each of them begins.
  void levels(Net& n) const {
    Numbers sides, starts;
    double before = 0;
    for (int64_t i = 0; i < config_.levels; ++i) {
      const auto side = static_cast<double>(config_.side(i));
      sides.insert(sides.end(), 2, side);
      starts.push_back(before);
      before += side * side;
    }
    n.common({{"spatial_shapes", computed(n, "model.level_shapes", DType::i64, {config_.levels, 2},
                                          [=] { return sides; })},
              {"level_start_index", computed(n, "model.level_starts", DType::i64, {config_.levels},
                                             [=] { return starts; })}});
  }

  // Deformable attention of queries x [B*Q, C]: values of a few places around each query's box.
  Value sample(Net& n, const std::string& path, Value x, Value memory, Value boxes) const {
    const int64_t heads = config_.heads, channels = config_.width, queries = config_.queries;
    const int64_t places = config_.levels * config_.points;
    const Dims all = n.shape(memory);
    const Expr rows = n.shape(x)[0];
    const Value value =
        linear(n, path + ".value_proj", n.reshape(memory, {all[0] * all[1], channels}), channels);
    const Value offsets = linear(n, path + ".sampling_offsets", x, heads * places * 2, DType::f32);
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
