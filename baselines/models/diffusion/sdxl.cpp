// SPDX-License-Identifier: Apache-2.0
// Stable Diffusion XL: two encoders of texts give a condition, once for an image. A U-Net turns
// noise into a latent, and a decoder makes the image. Guidance computes each image twice, with its
// text and with its negative text: the images with their texts come first in a batch.
#include <fmt/format.h>

#include <cmath>

#include "baselines/models/parts/diffusers/clip_text.hpp"
#include "baselines/models/parts/diffusers/image_decoder.hpp"
#include "baselines/models/parts/diffusers/unet.hpp"
#include "baselines/models/parts/image.hpp"
#include "baselines/models/parts/sizes.hpp"
#include "core/engines/denoise/engine.hpp"

namespace fk {
namespace {

using namespace parts;
using Ints = std::vector<int64_t>;

struct UnetLevel {
  int64_t width = 0, heads = 0, depth = 0;  // depth: blocks of a transformer
  bool attends = false;
};

struct SdxlConfig {
  int64_t rows = 0, columns = 0;  // of latents
  int64_t height = 0, width = 0;  // of images
  int64_t channels = 0, layers = 0, groups = 0, context = 0, time_width = 0, added_time = 0;
  double eps = 0, guidance = 1;
  std::vector<UnetLevel> levels;
  ClipText text, text_2;
  ImageDecoder decoder;
  DiffusionSampler sampler;
  bool guided() const { return guidance != 1; }
  int64_t copies() const { return guided() ? 2 : 1; }
};

constexpr double kTransformerNormEps = 1e-6;
constexpr int64_t kTimeNumbers = 6;  // original size, place of the crop, wanted size

// Keys with one supported value, null and absent ones included.
void need_plain_unet(const Config& c) {
  need_text(c, "_class_name", "UNet2DConditionModel");
  need_text(c, "act_fn", "silu");
  need_text(c, "addition_embed_type", "text_time");
  need_text(c, "mid_block_type", "UNetMidBlock2DCrossAttn");
  need_text(c, "resnet_time_scale_shift", "default");
  need_text(c, "time_embedding_type", "positional");
  need_text(c, "attention_type", "default");
  need_boolean(c, {"flip_sin_to_cos", "use_linear_projection"}, true);
  need_boolean(c,
               {"center_input_sample", "dual_cross_attention", "only_cross_attention",
                "mid_block_only_cross_attention", "resnet_skip_time_act", "class_embeddings_concat",
                "upcast_attention"},
               false);
  for (const char* key :
       {"mid_block_scale_factor", "resnet_out_scale_factor", "downsample_padding"})
    need_number(c, key, 1);
  need_number(c, "freq_shift", 0);
  need_number(c, "conv_in_kernel", 3);
  need_number(c, "conv_out_kernel", 3);
  for (const char* key :
       {"class_embed_type", "num_class_embeds", "encoder_hid_dim", "encoder_hid_dim_type",
        "num_attention_heads", "time_cond_proj_dim", "time_embedding_act_fn", "time_embedding_dim",
        "timestep_post_act", "cross_attention_norm", "reverse_transformer_layers_per_block"})
    if (c.has(key)) c.fail_at(key, "only null is supported");
  for (const char* key : {"addition_embed_type_num_heads", "sample_size"}) c.ignore(key);
}

void read_levels(const Config& config, SdxlConfig& c) {
  const Ints widths = config.integers("block_out_channels");
  // This key of the library is the number of heads.
  const Ints heads = config.integers("attention_head_dim"),
             depths = config.integers("transformer_layers_per_block");
  const auto down = config.texts("down_block_types"), up = config.texts("up_block_types");
  const size_t count = widths.size();
  if (count < 2 || count > 8) config.fail_at("block_out_channels", "it needs two to eight widths");
  const auto need_count = [&](const char* key, size_t have) {
    if (have != count) config.fail_at(key, "it needs an entry for each of block_out_channels");
  };
  need_count("attention_head_dim", heads.size());
  need_count("transformer_layers_per_block", depths.size());
  need_count("down_block_types", down.size());
  need_count("up_block_types", up.size());
  for (size_t i = 0; i < count; ++i) {
    UnetLevel level{bounded(config, "block_out_channels", widths[i], kSizeMax),
                    bounded(config, "attention_head_dim", heads[i], kCountMax),
                    bounded(config, "transformer_layers_per_block", depths[i], kCountMax)};
    level.attends = down[i] == "CrossAttnDownBlock2D";
    if (!level.attends && down[i] != "DownBlock2D")
      config.fail_at("down_block_types", "`" + excerpt(down[i]) + "` is not supported",
                     did_you_mean(down[i], {"CrossAttnDownBlock2D", "DownBlock2D"}));
    if (up[count - 1 - i] != (level.attends ? "CrossAttnUpBlock2D" : "UpBlock2D"))
      config.fail_at("up_block_types", "it must be down_block_types in reverse order");
    if (level.width % c.groups != 0)
      config.fail_at("norm_num_groups", "it must divide each of block_out_channels");
    if (level.width % level.heads != 0)
      config.fail_at("attention_head_dim", "each must divide its entry of block_out_channels");
    c.levels.push_back(level);
  }
}

void read_unet(const Config& config, SdxlConfig& c) {
  need_plain_unet(config);
  c.channels = read_count(config, "in_channels");
  if (read_count(config, "out_channels") != c.channels)
    config.fail_at("out_channels", "it must be in_channels");
  c.layers = read_count(config, "layers_per_block");
  c.groups = read_count(config, "norm_num_groups");
  c.eps = config.number("norm_eps");
  c.context = read_size(config, "cross_attention_dim");
  c.added_time = read_size(config, "addition_time_embed_dim");
  read_levels(config, c);
  c.time_width = 4 * c.levels[0].width;
  if (c.added_time < 4 || c.levels[0].width < 4)
    config.fail_at("addition_time_embed_dim", "embedded times need at least 4 channels");
  if (c.context != c.text.hidden + c.text_2.hidden)
    config.fail_at("cross_attention_dim", "it must be the widths of both text encoders together");
  if (config.integer("projection_class_embeddings_input_dim") !=
      c.text_2.projection + kTimeNumbers * c.added_time)
    config.fail_at("projection_class_embeddings_input_dim",
                   "it must be projection_dim of text_encoder_2 and six addition_time_embed_dim");
}

// The image's size in pixels: a multiple of each halving.
int64_t read_side(const Config& config, const char* key, int64_t step) {
  const int64_t side = bounded(config, key, config.integer(key), kCountMax);
  if (side % step != 0) config.fail_at(key, fmt::format("it must be a multiple of {}", step));
  return side;
}

SdxlConfig read_sdxl(const Config& config) {
  SdxlConfig c;
  c.text = read_clip_text(config.child("text_encoder"), false);
  c.text_2 = read_clip_text(config.child("text_encoder_2"), true);
  if (c.text.positions != c.text_2.positions)
    config.child("text_encoder_2")
        .fail_at("max_position_embeddings", "it must be that of text_encoder");
  read_unet(config.child("unet"), c);
  c.decoder = read_image_decoder(config.child("vae"));
  if (c.decoder.latents != c.channels)
    config.child("vae").fail_at("latent_channels", "it must be in_channels of the unet");
  const int64_t halved = int64_t{1} << (c.levels.size() - 1), factor = c.decoder.factor();
  c.height = read_side(config, "height", halved * factor);
  c.width = read_side(config, "width", halved * factor);
  c.rows = c.height / factor, c.columns = c.width / factor;
  c.guidance = config.number("guidance_scale");
  if (!(c.guidance >= 1)) config.fail_at("guidance_scale", "it must be at least 1");
  c.sampler = read_sampler(config.child("scheduler"), read_count(config, "num_inference_steps"));
  if (c.sampler.range > 0)
    config.child("scheduler").fail_at("clip_sample", "only false is supported here");
  return c;
}

class Sdxl : public Model {
 public:
  explicit Sdxl(const Config& config) : config_(read_sdxl(config)) {}

  std::unique_ptr<Engine> engine() const override {
    const SdxlConfig& c = config_;
    std::vector<RequestTensor> inputs = {{"noise", {c.rows, c.columns, c.channels}}};
    for (const char* name : {"prompt_ids", "negative_ids"}) {
      if (std::string(name) == "negative_ids" && !c.guided()) continue;
      RequestTensor ids{name, {c.text.positions}};
      ids.below = c.text.vocabulary;
      ids.dtype = DType::i64;
      inputs.push_back(ids);
      ids.name += "_2";
      ids.below = c.text_2.vocabulary;
      ids.dtype = DType::i64;
      inputs.push_back(ids);
    }
    return denoise_engine({.inputs = inputs,
                           .sampler = c.sampler,
                           .guidance = c.guidance,
                           .outputs = {"latents", "image"},
                           .ends = true});
  }

  void forward(Net& n, const std::string& phase) const override {
    n.adapt(gate_first);
    if (phase == "begin")
      begin(n);
    else if (phase == "step")
      step(n);
    else
      end(n);
  }

  std::vector<Unread> unread() const override {
    const std::string text = "text_encoder.text_model.", text_2 = "text_encoder_2.text_model.";
    std::vector<Unread> all = unread_encoder("vae");
    const char* unused = "a part behind the states that the U-Net sees";
    all.push_back({fmt::format("{}encoder.layers.{}.", text, config_.text.layers - 1), unused});
    all.push_back({text + "final_layer_norm.", unused});
    for (const std::string& at : {text, text_2})
      all.push_back({at + "embeddings.position_ids", "numbers"});
    return all;
  }

 private:
  // Checkpoints have the rows of a gated MLP the other way round.
  static void gate_first(WeightSpec& spec) {
    if (spec.name.find(".ff.net.0.proj.") == std::string::npos) return;
    const int64_t half = spec.shape[0] / 2;
    std::vector<int> order;
    for (size_t axis = 0; axis < spec.shape.size(); ++axis) order.push_back(static_cast<int>(axis));
    spec.parts = {{spec.name, spec.name}};
    spec.views = {PartView{spec.shape, 0, half, half, order},
                  PartView{spec.shape, 0, 0, half, order}};
  }

  Expr images(Net& n) const { return n.axis("B") * config_.copies(); }
  Value latent(Net& n) const {
    return n.state("latent", DType::f32,
                   {n.axis("B"), config_.rows, config_.columns, config_.channels});
  }
  Value context(Net& n) const {
    return n.state("context", n.limits().dtype,
                   {images(n), config_.text.positions, config_.context});
  }
  // The pooled text and the sizes, as a summand of the embedded time.
  Value added(Net& n) const {
    return n.state("added", n.limits().dtype, {images(n), config_.time_width});
  }
  static Value rows_of(Net& n, Value v) {
    const Dims shape = n.shape(v);
    Expr rows = 1;
    for (size_t d = 0; d + 1 < shape.size(); ++d) rows = rows * shape[d];
    return n.reshape(v, {rows, shape.back()});
  }
  // The images with their texts.
  static Value with_text(Net& n, Value v) { return n.slice(v, 0, 0, n.axis("B")); }
  // Rows of the same number side by side, in `out`.
  static void join(Net& n, const std::string& path, Value a, Value b, Value out) {
    const Ints sizes = {n.shape(a).back().value(), n.shape(b).back().value()};
    n("concat_channels", path,
      {{"num_parts", 2},
       {"sizes", sizes},
       {"size", sizes[0] + sizes[1]},
       {"x", std::vector<Value>{rows_of(n, a), rows_of(n, b)}},
       {"out", rows_of(n, out)}});
  }
  Value embedded_time(Net& n, const std::string& path, Value t, int64_t width) const {
    return n("sinusoidal_embedding", path,
             {{"size", width},
              {"flip_sin_to_cos", true},
              {"downscale_freq_shift", 0.0},
              {"t", t},
              {"out", std::string(name(n.limits().dtype))}});
  }
  // linear_1, silu, linear_2; the result is in `out` where it is given.
  Value embedding_mlp(Net& n, const std::string& path, Value x, Value out = {}) const {
    const int64_t width = config_.time_width;
    x = n("linear", path + ".linear_1", {{"out_features", width}, {"x", x}}, {"bias"});
    x = n("activation", path + ".act", {{"kind", "silu"}, {"x", x}});
    Args args = {{"out_features", width}, {"x", x}};
    if (out) args.emplace_back("out", out);
    return n("linear", path + ".linear_2", args, {"bias"});
  }

  void begin(Net& n) const {
    const SdxlConfig& c = config_;
    std::vector<Value> tokens, tokens_2;
    for (int64_t i = 0; i < c.copies(); ++i) {
      const std::string name = i == 0 ? "prompt_ids" : "negative_ids";
      const Dims shape = {n.axis("B"), c.text.positions};
      tokens.push_back(n.input(name, DType::i64, shape));
      tokens_2.push_back(n.input(name + "_2", DType::i64, shape));
    }
    const std::string path = "text_encoder.text_model", path_2 = "text_encoder_2.text_model";
    const ClipStates text = clip_states(n, path, c.text, tokens, false);
    const ClipStates text_2 = clip_states(n, path_2, c.text_2, tokens_2, true);
    join(n, "context", text.before, text_2.before, context(n));
    n.tap("context", {with_text(n, context(n))});
    add_conditions(n, clip_pooled(n, path_2, c.text_2, tokens_2, text_2.last));
    n("scaled_add", "noise",
      {{"scale", c.sampler.noise},
       {"y", rows_of(n, n.input("noise", DType::f32, n.shape(latent(n))))},
       {"out", rows_of(n, latent(n))}});
  }

  // The pooled text and six numbers about the image's size, for all steps.
  void add_conditions(Net& n, Value pooled) const {
    const SdxlConfig& c = config_;
    // The whole image, without a crop, of the wanted size.
    const Value numbers = computed(n, "unet.time_ids", DType::f32, {kTimeNumbers}, [c] {
      const auto height = static_cast<double>(c.height), width = static_cast<double>(c.width);
      return std::vector<double>{height, width, 0, 0, height, width};
    });
    const Value times = embedded_time(n, "unet.add_time_proj", numbers, c.added_time);
    const int64_t width = kTimeNumbers * c.added_time;
    const Value same = repeated_row(n, "unet.add_times", n.reshape(times, {1, width}), images(n));
    const Value both = n.empty(n.dtype(pooled), {images(n), c.text_2.projection + width});
    join(n, "unet.add_embeds", pooled, same, both);
    embedding_mlp(n, "unet.add_embedding", both, added(n));
    n.tap("added", {with_text(n, added(n))});
  }

  Value time_of_step(Net& n) const {
    const Value t = embedded_time(n, "unet.time_proj", n.input("time", DType::f32, {n.axis("B")}),
                                  config_.levels[0].width);
    const Value time = embedding_mlp(n, "unet.time_embedding", t);
    const Value all = n.empty(n.dtype(time), {images(n), config_.time_width});
    for (int64_t i = 0; i < config_.copies(); ++i)
      n("add", "unet.emb",
        {{"a", time}, {"b", copy_of(n, added(n), i)}, {"out", copy_of(n, all, i)}});
    return all;
  }
  // The images with the texts (0) or with the negative ones (1).
  static Value copy_of(Net& n, Value v, int64_t which) {
    return n.slice(v, 0, n.axis("B") * which, n.axis("B"));
  }

  Value spatial_transformer(Net& n, const std::string& path, Value image,
                            const UnetLevel& level) const {
    const Value normed =
        n("group_norm", path + ".norm",
          {{"num_groups", config_.groups}, {"eps", kTransformerNormEps}, {"x", image}});
    const int64_t head = level.width / level.heads;
    const auto project = [&](const std::string& name, Value x) {
      return Value(n("linear", path + name, {{"out_features", level.width}, {"x", rows_of(n, x)}},
                     {"bias"}));
    };
    Value x = n.reshape(project(".proj_in", normed), n.shape(pixel_rows(n, image)));
    for (int64_t i = 0; i < level.depth; ++i)
      x = n("basic_transformer_block", fmt::format("{}.transformer_blocks.{}", path, i),
            {{"num_heads", level.heads},
             {"head_dim", head},
             {"scale", 1 / std::sqrt(static_cast<double>(head))},
             {"intermediate_size", 4 * level.width},
             {"x", x},
             {"context", context(n)}});
    return sum_images(n, path + ".sum", image, as_image(n, project(".proj_out", x), image));
  }

  Value unet(Net& n, Value x) const {
    const SdxlConfig& c = config_;
    const Value time = time_of_step(n);
    int64_t tapped = 0;
    const auto seen = [&] { n.tap(fmt::format("hidden.{}", tapped++), {with_text(n, x)}); };
    const auto block = [&](const std::string& path, int64_t index, const UnetLevel& level) {
      x = resnet(n, fmt::format("unet.{}resnets.{}", path, index), x, level.width, c.groups, c.eps,
                 time);
      if (level.attends)
        x = spatial_transformer(n, fmt::format("unet.{}attentions.{}", path, index), x, level);
    };
    std::vector<Value> skips = {x = conv3(n, "unet.conv_in", x, c.levels[0].width)};
    for (size_t i = 0; i < c.levels.size(); ++i) {
      const std::string path = fmt::format("down_blocks.{}.", i);
      for (int64_t j = 0; j < c.layers; ++j) {
        block(path, j, c.levels[i]);
        skips.push_back(x);
      }
      if (i + 1 < c.levels.size())
        skips.push_back(
            x = conv3(n, "unet." + path + "downsamplers.0.conv", x, c.levels[i].width, 2));
      seen();
    }
    UnetLevel middle = c.levels.back();
    middle.attends = true;
    block("mid_block.", 0, middle);
    middle.attends = false;
    block("mid_block.", 1, middle);
    seen();
    for (size_t i = 0; i < c.levels.size(); ++i) {
      const UnetLevel& level = c.levels[c.levels.size() - 1 - i];
      const std::string path = fmt::format("up_blocks.{}.", i);
      for (int64_t j = 0; j <= c.layers; ++j) {
        x = beside(n, fmt::format("unet.{}skips.{}", path, j), x, skips.back());
        skips.pop_back();
        block(path, j, level);
      }
      if (i + 1 < c.levels.size()) x = upsampled(n, "unet." + path + "upsamplers.0", x);
      seen();
    }
    return last_conv(n, "unet.conv_norm_out", "unet.conv_out", x, c.groups, c.eps, c.channels);
  }
  // The channels of two images of one size.
  static Value beside(Net& n, const std::string& path, Value a, Value b) {
    Dims shape = n.shape(a);
    shape.back() = shape.back() + n.shape(b).back();
    const Value out = n.empty(n.dtype(a), shape);
    join(n, path, a, b, out);
    return out;
  }

  void step(Net& n) const {
    const SdxlConfig& c = config_;
    const Value state = rows_of(n, latent(n));
    const Value scaled = n.zeros(n.limits().dtype, {images(n), c.rows, c.columns, c.channels});
    const Value factors = n.input("input_coefficients", DType::f32, {2});
    for (int64_t i = 0; i < c.copies(); ++i)
      n("linear_combination", "unet.sample",
        {{"num_terms", 1},
         {"coefficients", factors},
         {"x", std::vector<Value>{state}},
         {"out", rows_of(n, copy_of(n, scaled, i))}});
    const Value prediction = unet(n, scaled);
    std::vector<Value> terms;
    for (int64_t i = 0; i < c.copies(); ++i) terms.push_back(rows_of(n, copy_of(n, prediction, i)));
    n("linear_combination", "scheduler.step",
      {{"num_terms", c.copies()},
       {"coefficients", n.input("coefficients", DType::f32, {c.copies() + 1})},
       {"x", terms},
       {"out", state}});
    n.tap("latents", {latent(n)});
  }

  void end(Net& n) const {
    n.output("latents", latent(n));
    n.output("image", decoded_image(n, "vae", config_.decoder, latent(n)));
  }

  SdxlConfig config_;
};

std::unique_ptr<Model> make_sdxl(const Config& config) { return std::make_unique<Sdxl>(config); }

FK_MODEL(sdxl, make_sdxl, {"StableDiffusionXLPipeline"}, {"sdxl"},
         {"_diffusers_version", "_name_or_path", "dropout", "initializer_factor"});

}  // namespace
}  // namespace fk
