// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/diffusers/hunyuan_sizes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "baselines/models/parts/sizes.hpp"

namespace fk::parts {

namespace {

void read_video_transformer(const Config& config, HunyuanConfig& c) {
  need_text(config, "_class_name", "HunyuanVideo15Transformer3DModel");
  need_number(config, "patch_size", 1);
  need_number(config, "patch_size_t", 1);
  need_text(config, "qk_norm", "rms_norm");
  need_boolean(config, {"use_meanflow"}, false);
  for (const char* key : {"image_embed_dim", "target_size", "task_type"}) config.ignore(key);
  c.channels = read_count(config, "out_channels");
  c.inputs = read_count(config, "in_channels");
  if (c.inputs != 2 * c.channels + 1)
    config.fail_at("in_channels", "it must be twice out_channels, and 1");
  c.layers = read_count(config, "num_layers");
  c.refiners = read_count(config, "num_refiner_layers");
  c.heads = read_count(config, "num_attention_heads");
  c.head_dim = read_count(config, "attention_head_dim");
  const double wide = static_cast<double>(c.hidden()) * config.number("mlp_ratio", 4);
  if (!(wide >= 1 && wide <= static_cast<double>(kSizeMax)))
    config.fail_at("mlp_ratio", "the MLP has no width");
  c.mlp = static_cast<int64_t>(wide);
  if (config.integer("text_embed_dim") != c.text.hidden)
    config.fail_at("text_embed_dim", "it must be hidden_size of text_encoder");
  if (config.integer("text_embed_2_dim") != c.glyphs.hidden)
    config.fail_at("text_embed_2_dim", "it must be d_model of text_encoder_2");
  c.glyph_width = config.integer("context_embedder_2_dim", 2048);
  bounded(config, "context_embedder_2_dim", c.glyph_width, kSizeMax);
  c.theta = config.number("rope_theta");
  if (!(c.theta > 0)) config.fail_at("rope_theta", "it must be above 0");
  c.rope = config.integers("rope_axes_dim");
  if (c.rope.size() != 3) config.fail_at("rope_axes_dim", "it needs three widths");
  int64_t sum = 0;
  for (const int64_t width : c.rope) {
    sum += bounded(config, "rope_axes_dim", width, kCountMax);
    if (width % 2 != 0) config.fail_at("rope_axes_dim", "each must be even");
  }
  if (sum != c.head_dim) config.fail_at("rope_axes_dim", "their sum must be attention_head_dim");
}

}  // namespace

HunyuanConfig read_hunyuan(const Config& config) {
  HunyuanConfig c;
  c.text = read_decoder_text(config.child("text_encoder"));
  if (c.text.layers <= kUnusedLayers)
    config.child("text_encoder").fail_at("num_hidden_layers", "it must be above 2");
  c.glyphs = read_t5_text(config.child("text_encoder_2"));
  read_video_transformer(config.child("transformer"), c);
  c.decoder = read_video_decoder(config.child("vae"));
  if (c.decoder.latents != c.channels)
    config.child("vae").fail_at("latent_channels", "it must be out_channels of transformer");
  const auto latents = [&](const char* key, int64_t step) {
    const int64_t side = bounded(config, key, config.integer(key), kCountMax);
    if (side % step != 0) config.fail_at(key, fmt::format("it must be a multiple of {}", step));
    return side / step;
  };
  c.rows = latents("height", c.decoder.factor());
  c.columns = latents("width", c.decoder.factor());
  const int64_t frames = read_count(config, "num_frames"), slow = int64_t{1} << c.decoder.slowed;
  if (frames % slow != 1)
    config.fail_at("num_frames", fmt::format("it must be a multiple of {}, and 1", slow));
  c.frames = frames / slow + 1;
  c.crop = config.integer("prompt_template_encode_start_idx");
  if (c.crop < 0 || c.crop > kCountMax)
    config.fail_at("prompt_template_encode_start_idx", "it must be at least 0");
  c.text_tokens = read_count(config, "tokenizer_max_length");
  c.glyph_tokens = read_count(config, "tokenizer_2_max_length");
  c.guidance = config.number("guidance_scale");
  c.sampler = read_sampler(config.child("scheduler"), read_count(config, "num_inference_steps"),
                           c.places());
  if (c.sampler.range > 0)
    config.child("scheduler").fail_at("clip_sample", "only false is supported here");
  return c;
}

std::vector<double> video_rope(const HunyuanConfig& c, bool sines) {
  std::vector<double> all;
  for (int64_t t = 0; t < c.context() + c.places(); ++t) {
    const int64_t p = std::max<int64_t>(0, t - c.context());
    const int64_t place[] = {p / c.columns / c.rows, p / c.columns % c.rows, p % c.columns};
    for (size_t axis = 0; axis < c.rope.size(); ++axis)
      for (int64_t i = 0; i < c.rope[axis]; ++i) {
        const double share = static_cast<double>(i / 2 * 2) / static_cast<double>(c.rope[axis]);
        const double angle = static_cast<double>(place[axis]) * std::pow(c.theta, -share);
        all.push_back(sines ? std::sin(angle) : std::cos(angle));
      }
  }
  return all;
}

}  // namespace fk::parts
