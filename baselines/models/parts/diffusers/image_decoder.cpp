// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/diffusers/image_decoder.hpp"

#include <cmath>

#include "baselines/models/parts/diffusers/unet.hpp"
#include "baselines/models/parts/image.hpp"
#include "baselines/models/parts/sizes.hpp"

namespace fk::parts {

namespace {

constexpr double kDecoderEps = 1e-6;

// Pixels see each other by one head as wide as the channels.
Value seen_by_all(Net& n, const std::string& path, const ImageDecoder& c, Value x) {
  const int64_t width = n.shape(x).back().value();
  const Value normed = n("group_norm", path + ".group_norm",
                         {{"num_groups", c.groups}, {"eps", kDecoderEps}, {"x", x}});
  const Value rows = pixel_rows(n, normed);
  const Value seen = n("context_attention", path,
                       {{"num_heads", 1},
                        {"head_dim", width},
                        {"scale", 1 / std::sqrt(static_cast<double>(width))},
                        {"x", rows},
                        {"context", rows}},
                       {"bias"});
  return sum_images(n, path + ".sum", x, as_image(n, seen, x));
}

// The sampler's latent as the decoder's, in the dtype of activations.
Value decoder_latent(Net& n, const std::string& path, const ImageDecoder& c, Value latent) {
  if (c.shift == 0) return lowered(n, path + ".latent", latent, 1 / c.scaling);
  const Dims shape = n.shape(latent);
  const Value shift = computed(n, path + ".shift", DType::f32, {1, c.latents},
                               [shift = c.shift, width = c.latents] {
                                 return std::vector<double>(static_cast<size_t>(width), shift);
                               });
  const Value moved = n("modulate", path + ".scaling",
                        {{"offset", 1 / c.scaling},
                         {"x", n.reshape(latent, {1, shape[0] * shape[1] * shape[2], shape[3]})},
                         {"shift", shift}});
  return lowered(n, path + ".latent", n.reshape(moved, shape));
}

}  // namespace

ImageDecoder read_image_decoder(const Config& config) {
  ImageDecoder c;
  need_text(config, "_class_name", "AutoencoderKL");
  need_text(config, "act_fn", "silu");
  c.latents = read_count(config, "latent_channels");
  c.colours = read_count(config, "out_channels");
  c.layers = read_count(config, "layers_per_block");
  c.groups = read_count(config, "norm_num_groups");
  c.widths = config.integers("block_out_channels");
  if (c.widths.empty() || c.widths.size() > 8)
    config.fail_at("block_out_channels", "it needs one to eight widths");
  for (const int64_t width : c.widths) {
    bounded(config, "block_out_channels", width, kCountMax);
    if (width % c.groups != 0)
      config.fail_at("norm_num_groups", "it must divide each of block_out_channels");
  }
  const auto types = config.texts("up_block_types");
  if (types != std::vector<std::string>(c.widths.size(), "UpDecoderBlock2D"))
    config.fail_at("up_block_types", "it needs an `UpDecoderBlock2D` for each width");
  c.scaling = config.number("scaling_factor");
  if (!(c.scaling > 0)) config.fail_at("scaling_factor", "it must be above 0");
  c.shift = config.number("shift_factor", 0);
  c.quantized = config.boolean("use_post_quant_conv", true);
  need_boolean(config, {"mid_block_add_attention"}, true);
  for (const char* key : {"latents_mean", "latents_std"})
    if (config.has(key)) config.fail_at(key, "only null is supported");
  // They are of the encoder, of training, or a choice of the library's dtype.
  for (const char* key :
       {"in_channels", "down_block_types", "sample_size", "force_upcast", "use_quant_conv"})
    config.ignore(key);
  return c;
}

Value decoded_image(Net& n, const std::string& path, const ImageDecoder& c, Value latent) {
  const std::string decoder = path + ".decoder.";
  Value x = decoder_latent(n, path, c, latent);
  if (c.quantized) {
    // A convolution of one pixel has two more axes.
    n.adapt([name = path + ".post_quant_conv.weight"](WeightSpec& spec) {
      if (spec.name == name) spec.view = PartView{spec.shape, 0, 0, spec.shape[0], {0, 1}};
    });
    const Dims shape = n.shape(x);
    const Value rows = n.reshape(x, {shape[0] * shape[1] * shape[2], shape[3]});
    const Value y = n("linear", path + ".post_quant_conv",
                      {{"out_features", c.latents}, {"x", rows}}, {"bias"});
    x = as_image(n, y, x);
  }
  x = conv3(n, decoder + "conv_in", x, c.widths.back());
  const auto block = [&](const std::string& at, int64_t width) {
    x = resnet(n, decoder + at, x, width, c.groups, kDecoderEps);
  };
  block("mid_block.resnets.0", c.widths.back());
  x = seen_by_all(n, decoder + "mid_block.attentions.0", c, x);
  block("mid_block.resnets.1", c.widths.back());
  for (size_t i = 0; i < c.widths.size(); ++i) {
    const std::string level = fmt::format("up_blocks.{}.", i);
    for (int64_t j = 0; j <= c.layers; ++j)
      block(fmt::format("{}resnets.{}", level, j), c.widths[c.widths.size() - 1 - i]);
    if (i + 1 < c.widths.size()) x = upsampled(n, decoder + level + "upsamplers.0", x);
    n.tap(fmt::format("{}.{}", path, i), {x});
  }
  return last_conv(n, decoder + "conv_norm_out", decoder + "conv_out", x, c.groups, kDecoderEps,
                   c.colours);
}

std::vector<Model::Unread> unread_encoder(const std::string& path) {
  return {{path + ".encoder.", "an encoder of images"},
          {path + ".quant_conv.", "a layer behind the encoder of images"}};
}

}  // namespace fk::parts
