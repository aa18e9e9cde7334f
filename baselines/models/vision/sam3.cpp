// SPDX-License-Identifier: Apache-2.0
// SAM 3: masks of all objects which a text names. An encoder joins a map of the image with the
// states of CLIP's text. A decoder has queries, whose boxes bias their attention. Masks are
// products of queries and pixels. Names are those of transformers' Sam3Model. Prompts are texts
// alone.
#include <fmt/format.h>

#include <cmath>

#include "baselines/models/parts/diffusers/clip_text.hpp"
#include "baselines/models/parts/sam_vision.hpp"
#include "baselines/models/parts/sizes.hpp"

namespace fk {
namespace {

using namespace parts;
using Ints = std::vector<int64_t>;
using Numbers = std::vector<double>;

constexpr double kFullTurn = 6.283185307179586;
constexpr double kHiddenKey = 1 << 30;  // hides a key
constexpr int64_t kPixelGroups = 8;     // of norms of pixels
constexpr double kPlainEps = 1e-5;      // of layer norms outside of the vision transformer
constexpr double kPresenceMost = 10, kScoreMost = 12;

struct DetrStack {
  int64_t layers = 0, heads = 0, mlp = 0;
};
struct SamConfig {
  SamVision vision;
  ClipText text;
  int64_t width = 0, queries = 0;
  DetrStack encoder, decoder;
  int64_t mask_heads = 0;
  int64_t side() const { return vision.side(); }
  int64_t tokens() const { return vision.tokens(); }
};

DetrStack read_detr_stack(const Config& config, int64_t width) {
  DetrStack s;
  if (read_size(config, "hidden_size") != width)
    config.fail_at("hidden_size", "it must be fpn_hidden_size");
  s.layers = read_count(config, config.has("num_layers") ? "num_layers" : "num_hidden_layers");
  s.heads = read_count(config, "num_attention_heads");
  if (width % s.heads != 0)
    config.fail_at("num_attention_heads", "hidden_size is not a multiple of it");
  s.mlp = read_size(config, "intermediate_size");
  need_text(config, "hidden_act", "relu");
  return s;
}

SamConfig read_sam3(const Config& config) {
  SamConfig c;
  c.vision = read_sam_vision(config.child("vision_config"));
  c.width = c.vision.width;
  c.text = read_clip_text(config.child("text_config"), false);
  const Config decoder = config.child("detr_decoder_config"),
               masks = config.child("mask_decoder_config");
  c.encoder = read_detr_stack(config.child("detr_encoder_config"), c.width);
  c.decoder = read_detr_stack(decoder, c.width);
  c.queries = read_count(decoder, "num_queries");
  if (read_size(masks, "hidden_size") != c.width)
    masks.fail_at("hidden_size", "it must be fpn_hidden_size");
  c.mask_heads = read_count(masks, "num_attention_heads");
  if (c.width % c.mask_heads != 0)
    masks.fail_at("num_attention_heads", "hidden_size is not a multiple of it");
  // Prompts of boxes, which are left out.
  for (const char* key : {"dropout", "hidden_act", "hidden_dropout", "hidden_size",
                          "initializer_range", "intermediate_size", "layer_norm_eps", "model_type",
                          "num_attention_heads", "num_layers", "roi_size"})
    if (config.has("geometry_encoder_config")) config.child("geometry_encoder_config").ignore(key);
  for (const char* part : {"detr_encoder_config", "detr_decoder_config", "mask_decoder_config"})
    config.child(part).ignore("layer_norm_eps");
  masks.ignore("num_upsampling_stages");
  return c;
}

class Sam3 : public Model {
 public:
  explicit Sam3(const Config& config) : config_(read_sam3(config)) {}

  // Random texts have no padding.
  std::unique_ptr<Engine> engine() const override {
    const int64_t side = config_.vision.vit.image_size;
    RequestTensor tokens{"prompt_ids", {config_.text.positions}},
        mask{"prompt_mask", {config_.text.positions}};
    tokens.below = config_.text.vocabulary;
    tokens.dtype = DType::i64;
    mask.mean.assign(static_cast<size_t>(config_.text.positions), 1.0F);
    mask.stddev = 0;
    return feedforward_engine(
        {.phase = "segment",
         .outputs = {"pred_masks", "pred_boxes", "pred_logits", "presence_logits", "semantic_seg"},
         .inputs = {{"pixel_values", {config_.vision.colours, side, side}}, tokens, mask}});
  }

  std::vector<Unread> unread() const override {
    const std::string boxes = "a part for prompts of boxes", video = "the tracker of videos";
    return {{"geometry_encoder.", boxes},
            {"vision_encoder.neck.fpn_layers.3.", "a coarser map, which masks do not need"},
            {"mask_decoder.pixel_decoder.conv_layers.2.", "a stage without a map"},
            {"mask_decoder.pixel_decoder.norms.2.", "a stage without a map"},
            {"text_encoder.text_projection.", "a projection of CLIP's"},
            {"text_encoder.text_model.embeddings.position_ids", "numbers"},
            {"tracker_model.", video},
            {"tracker_neck.", video}};
  }

  void forward(Net& n, const std::string&) const override {
    n.adapt(name_of);
    Prompt prompt = read_prompt(n);
    const std::vector<Value> maps = sam_pyramid(n, config_.vision, sam_vision(n, config_.vision));
    const Value places = sines(n);
    const Value seen = join(n, maps[2], places, prompt);
    Value boxes, presence;
    const Value queries = decode(n, seen, places, prompt, boxes, presence);
    score(n, queries, prompt);
    draw(n, maps, seen, queries, prompt);
    n.output("pred_boxes", n.reshape(corners(n, boxes), {batch(n), config_.queries, int64_t{4}}));
    n.output("presence_logits", n.reshape(presence, {batch(n), int64_t{1}}));
  }

 private:
  // The text [B, S, C], and what scores of its keys grow by [B, 1, S].
  struct Prompt {
    Value states, mask;
  };

  // Layers of the vision transformer have other names than CLIP's.
  static void name_of(WeightSpec& spec) {
    const auto change = [](std::string& name) {
      if (!name.starts_with("vision_encoder.backbone.")) return;
      for (const auto& [from, to] :
           {std::pair<std::string, std::string>{"self_attn.out_proj", "attention.o_proj"},
            {"self_attn.", "attention."}}) {
        const size_t at = name.find(from);
        if (at != std::string::npos) name.replace(at, from.size(), to);
      }
    };
    change(spec.name);
    for (auto& part : spec.parts)
      for (std::string& name : part) change(name);
  }

  static Expr batch(Net& n) { return n.axis("B"); }
  static Value flat(Net& n, Value x) {
    const Dims shape = n.shape(x);
    Expr rows = 1;
    for (size_t d = 0; d + 1 < shape.size(); ++d) rows = rows * shape[d];
    return n.reshape(x, {rows, shape.back()});
  }
  static Value linear(Net& n, const std::string& path, Value x, int64_t out) {
    return n("linear", path, {{"out_features", out}, {"x", flat(n, x)}}, {"bias"});
  }
  static Value relu(Net& n, const std::string& path, Value x) {
    return n("activation", path + ".relu", {{"kind", "relu"}, {"x", x}});
  }
  // Products by these names below the path, with relu between them.
  static Value mlp(Net& n, const std::string& path, Value x,
                   const std::vector<std::pair<std::string, int64_t>>& layers) {
    for (size_t i = 0; i < layers.size(); ++i) {
      const std::string at = path + "." + layers[i].first;
      x = linear(n, at, x, layers[i].second);
      if (i + 1 < layers.size()) x = relu(n, at, x);
    }
    return x;
  }
  static Value norm(Net& n, const std::string& path, Value x, double eps = kPlainEps) {
    return by_rows(n, "layer_norm", path, x, {{"eps", eps}});
  }

  // Attention of q [B, M, C] over k and v [B, S, C].
  Value attend(Net& n, const std::string& path, int64_t heads, Value q, Value k, Value v,
               Value mask = {}, Value bias = {}) const {
    const int64_t width = config_.width, head = width / heads;
    const auto part = [&](const char* name, Value x) {
      const Dims shape = n.shape(x);
      return n.reshape(linear(n, path + "." + name, x, width), {shape[0], shape[1], heads, head});
    };
    const Dims shape = n.shape(q);
    const Value mixed = n("biased_attention", path + ".attention",
                          {{"num_heads", heads},
                           {"num_kv_heads", heads},
                           {"head_dim", head},
                           {"scale", 1 / std::sqrt(static_cast<double>(head))},
                           {"q", part("q_proj", q)},
                           {"k", part("k_proj", k)},
                           {"v", part("v_proj", v)},
                           {"mask", mask},
                           {"bias", bias}});
    return n.reshape(linear(n, path + ".o_proj", n.reshape(mixed, shape), width), shape);
  }

  Prompt read_prompt(Net& n) const {
    const int64_t tokens = config_.text.positions;
    const std::string path = "text_encoder.text_model";
    const Value ids = n.input("prompt_ids", DType::i64, {batch(n), tokens});
    const Value given = n.input("prompt_mask", DType::f32, {batch(n), tokens});
    // Padding is behind the text, whose tokens do not see what follows.
    const Value x = clip_states(n, path, config_.text, {ids}, true).last;
    const Value normed = norm(n, path + ".final_layer_norm", x, config_.text.eps);
    Prompt prompt;
    prompt.states = n.reshape(linear(n, "text_projection", normed, config_.width),
                              {batch(n), tokens, config_.width});
    n.tap("prompt", {prompt.states});
    prompt.mask = n.reshape(scaled(n, "prompt.mask", given, kHiddenKey, -kHiddenKey),
                            {batch(n), int64_t{1}, tokens});
    return prompt;
  }

  // factor * x + term.
  static Value scaled(Net& n, const std::string& path, Value x, double factor, double term) {
    const auto number = [&](const char* part, double v, Ints shape) {
      return computed(n, path + "." + part, DType::f32, std::move(shape),
                      [v] { return Numbers{v}; });
    };
    const Dims shape = n.shape(x);
    Expr count = 1;
    for (const Expr& size : shape) count = count * size;
    const Value y = n("linear", path,
                      {{"weight", number("weight", factor, {1, 1})},
                       {"bias", number("bias", term, {1})},
                       {"x", n.reshape(x, {count, int64_t{1}})},
                       {"out", "f32"}});
    return n.reshape(y, shape);
  }

  // [B, T, C]: sines and cosines of the row, then of the column of each token.
  Value sines(Net& n) const {
    const int64_t side = config_.side(), width = config_.width, half = width / 2;
    WeightSpec spec;
    spec.name = "places";
    spec.dtype = n.limits().dtype;
    spec.shape = {config_.tokens(), width};
    spec.compute = [=] {
      Numbers table;
      for (int64_t token = 0; token < side * side; ++token)
        for (int64_t c = 0; c < width; ++c) {
          const auto at = static_cast<double>((c < half ? token / side : token % side) + 1);
          const double whole = at / (static_cast<double>(side) + 1e-6) * kFullTurn;
          const auto share = static_cast<double>(c % half / 2 * 2) / static_cast<double>(half);
          const double angle = whole / std::pow(10000.0, share);
          table.push_back(c % 2 ? std::cos(angle) : std::sin(angle));
        }
      return table;
    };
    return each_image(n, "places", n.weight(std::move(spec)));
  }

  // The encoder's tokens of the coarsest map.
  Value join(Net& n, Value map, Value places, const Prompt& prompt) const {
    Value x = n.reshape(map, {batch(n), config_.tokens(), config_.width});
    for (int64_t i = 0; i < config_.encoder.layers; ++i) {
      const std::string path = fmt::format("detr_encoder.layers.{}", i);
      n.tap(fmt::format("encoder_hidden.{}", i), {x});
      const Value own = norm(n, path + ".layer_norm1", x);
      const Value placed = sum_rows(n, path + ".places", own, places);
      x = sum_rows(n, path + ".sum1", x,
                   attend(n, path + ".self_attn", config_.encoder.heads, placed, placed, own));
      x = sum_rows(
          n, path + ".sum2", x,
          attend(n, path + ".cross_attn", config_.encoder.heads, norm(n, path + ".layer_norm2", x),
                 prompt.states, prompt.states, prompt.mask));
      x = sum_rows(n, path + ".sum3", x,
                   mlp(n, path + ".mlp", norm(n, path + ".layer_norm3", x),
                       {{"fc1", config_.encoder.mlp}, {"fc2", config_.width}}));
    }
    n.tap(fmt::format("encoder_hidden.{}", config_.encoder.layers), {x});
    return x;
  }

  // Queries [B, Q, C] behind the last layer, their boxes, and the logit of any object's presence.
  Value decode(Net& n, Value seen, Value places, const Prompt& prompt, Value& boxes,
               Value& presence) const {
    const int64_t width = config_.width, count = config_.queries;
    const std::string path = "detr_decoder";
    WeightSpec first;
    first.name = path + ".queries";
    first.dtype = n.limits().dtype;
    first.shape = {count + 1, width};
    first.stddev = 1;
    first.parts = {{path + ".presence_token.weight", path + ".query_embed.weight"}};
    Value x = each_image(n, path + ".queries", n.weight(std::move(first)));
    WeightSpec anchors;
    anchors.name = path + ".reference_points.weight";
    anchors.shape = {count, 4};
    anchors.stddev = 1;
    const Value usual = n("activation", path + ".reference_points",
                          {{"kind", "sigmoid"}, {"x", n.weight(std::move(anchors))}});
    boxes = n.reshape(each_image(n, path + ".boxes", usual), {batch(n) * count, int64_t{4}});
    const Value key = sum_rows(n, path + ".keys", seen, places);
    Value normed;
    for (int64_t i = 0; i < config_.decoder.layers; ++i) {
      n.tap(fmt::format("decoder_hidden.{}", i), {x});
      x = query_layer(n, fmt::format("{}.layers.{}", path, i), x, key, seen, prompt, boxes);
      const Value own = n("prepend_rows", fmt::format("{}.own.{}", path, i),
                          {{"prefix_rows", 0}, {"x", n.slice(x, 1, 1, count)}});
      normed = norm(n, path + ".output_layer_norm", own);
      const Value delta =
          mlp(n, path + ".box_head", normed, {{"layer1", width}, {"layer2", width}, {"layer3", 4}});
      boxes = n("box_refine", fmt::format("{}.boxes.{}", path, i),
                {{"eps", 1e-3}, {"delta", delta}, {"reference", boxes}});
    }
    n.tap(fmt::format("decoder_hidden.{}", config_.decoder.layers), {x});
    const Value logit =
        mlp(n, path + ".presence_head",
            norm(n, path + ".presence_layer_norm", first_tokens(n, path + ".presence", x)),
            {{"layer1", width}, {"layer2", width}, {"layer3", 1}});
    presence = n("activation", path + ".presence_clamp",
                 {{"kind", "clamp"}, {"alpha", kPresenceMost}, {"x", logit}});
    return normed;
  }

  Value query_layer(Net& n, const std::string& path, Value x, Value key, Value seen,
                    const Prompt& prompt, Value boxes) const {
    const int64_t width = config_.width, count = config_.queries, heads = config_.decoder.heads;
    const std::string decoder = "detr_decoder";
    const Value sine = n("box_embedding", path + ".box_embedding",
                         {{"size", 2 * width},
                          {"boxes", boxes},
                          {"out", n.empty(n.dtype(x), {batch(n) * count, 2 * width})}});
    const Value place =
        n.reshape(mlp(n, decoder + ".ref_point_head", sine, {{"layer1", width}, {"layer2", width}}),
                  {batch(n), count, width});
    WeightSpec none;  // the first token has no box
    none.name = "no_box";
    none.dtype = n.dtype(x);
    none.shape = {1, width};
    none.compute = [width] { return Numbers(static_cast<size_t>(width)); };
    const Value places = with_prefix(n, path + ".places", n.weight(std::move(none)), place);
    const Value bias = box_bias(n, path, boxes, n.dtype(x));
    const auto placed = [&](const char* name) { return sum_rows(n, path + name, x, places); };
    const auto sum = [&](const std::string& part, Value y) {
      x = norm(n, path + "." + part + "_layer_norm", sum_rows(n, path + "." + part + ".sum", x, y));
    };
    Value q = placed(".self_attn.placed");
    sum("self_attn", attend(n, path + ".self_attn", heads, q, q, x));
    q = placed(".text_cross_attn.placed");
    sum("text_cross_attn",
        attend(n, path + ".text_cross_attn", heads, q, prompt.states, prompt.states, prompt.mask));
    q = placed(".vision_cross_attn.placed");
    sum("vision_cross_attn", attend(n, path + ".vision_cross_attn", heads, q, key, seen, {}, bias));
    sum("mlp", mlp(n, path + ".mlp", x, {{"fc1", config_.decoder.mlp}, {"fc2", width}}));
    return x;
  }

  // [B, H, 1 + Q, T]: how much more a query sees a pixel, by its distances from edges of the box.
  Value box_bias(Net& n, const std::string& path, Value boxes, DType dtype) const {
    const int64_t side = config_.side(), count = config_.queries, heads = config_.decoder.heads;
    const Expr all = batch(n) * count;
    const Outputs deltas = n("box_deltas", path + ".box_deltas",
                             {{"image_size", Ints{side, side}},
                              {"boxes", boxes},
                              {"columns", n.empty(dtype, {all, side, int64_t{2}})}});
    const auto part = [&](const char* axis, Value x) {
      const Value y = mlp(n, std::string("detr_decoder.box_rpb_embed_") + axis, x,
                          {{"layer1", config_.width}, {"layer2", heads}});
      return n.reshape(y, {batch(n), count, side, heads});
    };
    return n("axial_bias", path + ".box_bias",
             {{"prefix_rows", 1},
              {"rows", part("y", deltas["rows"])},
              {"columns", part("x", deltas["columns"])}});
  }

  // Boxes by their corners.
  static Value corners(Net& n, Value boxes) {
    const Value matrix = computed(n, "corners", DType::f32, {4, 4}, [] {
      return Numbers{1, 0, -0.5, 0, 0, 1, 0, -0.5, 1, 0, 0.5, 0, 0, 1, 0, 0.5};
    });
    return n("linear", "corners", {{"weight", matrix}, {"x", boxes}, {"out", "f32"}});
  }

  // A query's logit is its product with the mean of the text.
  void score(Net& n, Value queries, const Prompt& prompt) const {
    const int64_t width = config_.width;
    const std::string path = "dot_product_scoring";
    const Value more = mlp(n, path + ".text_mlp", prompt.states,
                           {{"layer1", config_.decoder.mlp}, {"layer2", width}});
    const Value text =
        norm(n, path + ".text_mlp_out_norm", sum_rows(n, path + ".text", prompt.states, more));
    const Value words = n.reshape(text, {batch(n), config_.text.positions, int64_t{1}, width});
    const Value mean = n("biased_attention", path + ".mean",  // all scores are equal
                         {{"num_heads", 1},
                          {"num_kv_heads", 1},
                          {"head_dim", width},
                          {"scale", 0.0},
                          {"q", n.slice(words, 1, 0, 1)},
                          {"k", words},
                          {"v", words},
                          {"mask", prompt.mask}});
    const Value one = linear(n, path + ".text_proj", n.reshape(mean, {batch(n), width}), width);
    const Value own = linear(n, path + ".query_proj", queries, width);
    const Value dots = n("matmul_nt", path + ".dots",
                         {{"x", n.reshape(own, {batch(n), config_.queries, width})},
                          {"y", n.reshape(one, {batch(n), int64_t{1}, width})},
                          {"out", n.empty(DType::f32, {batch(n), config_.queries, int64_t{1}})}});
    const Value scores =
        scaled(n, path + ".scale", n.reshape(dots, {batch(n) * config_.queries, int64_t{1}}),
               1 / std::sqrt(static_cast<double>(width)), 0);
    const Value held =
        n("activation", path + ".clamp", {{"kind", "clamp"}, {"alpha", kScoreMost}, {"x", scores}});
    n.output("pred_logits", n.reshape(held, {batch(n), config_.queries}));
  }

  // Masks of queries, and one of all objects.
  void draw(Net& n, const std::vector<Value>& maps, Value seen, Value queries,
            const Prompt& prompt) const {
    const int64_t width = config_.width, side = config_.side();
    const std::string path = "mask_decoder";
    const Value told = sum_rows(n, path + ".prompt", seen,
                                attend(n, path + ".prompt_cross_attn", config_.mask_heads,
                                       norm(n, path + ".prompt_cross_attn_norm", seen),
                                       prompt.states, prompt.states, prompt.mask));
    Value x = n.reshape(told, {batch(n), side, side, width});
    for (int64_t i = 0; i < 2; ++i) {
      const std::string stage = fmt::format("{}.pixel_decoder", path);
      const Value fine = maps[static_cast<size_t>(1 - i)];
      const Value large =
          n("resize2d", fmt::format("{}.resize.{}", stage, i),
            {{"mode", "nearest"}, {"x", x}, {"out", n.empty(n.dtype(x), n.shape(fine))}});
      x = sum_images(n, fmt::format("{}.sum.{}", stage, i), large, fine);
      x = plain_conv(n, fmt::format("{}.conv_layers.{}", stage, i), x, width, 3);
      x = n("group_norm", fmt::format("{}.norms.{}", stage, i),
            {{"num_groups", kPixelGroups}, {"activation", "relu"}, {"eps", kPlainEps}, {"x", x}});
    }
    const int64_t fine = 4 * side;
    const Value marks = n.reshape(
        mlp(n, path + ".mask_embedder.layers", queries, {{"0", width}, {"1", width}, {"2", width}}),
        {batch(n), config_.queries, width});
    const Value own = plain_conv(n, path + ".instance_projection", x, width, 1);
    const Value masks = n("matmul_nt", path + ".masks",
                          {{"x", marks},
                           {"y", n.reshape(own, {batch(n), fine * fine, width})},
                           {"out", n.empty(DType::f32, {batch(n), config_.queries, fine * fine})}});
    n.output("pred_masks", n.reshape(masks, {batch(n), config_.queries, fine, fine}));
    n.output("semantic_seg", plain_conv(n, path + ".semantic_projection", x, 1, 1));
  }

  SamConfig config_;
};

std::unique_ptr<Model> make_sam3(const Config& config) { return std::make_unique<Sam3>(config); }

FK_MODEL(sam3, make_sam3, {"Sam3Model"}, {"sam3"},
         {"initializer_range", "initializer_factor", "attention_dropout", "hidden_dropout",
          "dropout", "layer_scale_init_value", "model_type", "architectures", "bos_token_id"});

}  // namespace
}  // namespace fk
