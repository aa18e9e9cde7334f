// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/oasis_sizes.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "baselines/models/parts/sizes.hpp"

namespace fk::parts {

namespace {

int64_t oasis_mlp_width(const Config& config, int64_t hidden) {
  const double wide = static_cast<double>(hidden) * config.number("mlp_ratio");
  if (!(wide >= 1 && wide <= static_cast<double>(kSizeMax)))
    config.fail_at("mlp_ratio", "the MLP has no width");
  return static_cast<int64_t>(wide);
}

// Products of 1 - beta, whose betas make the product a sigmoid of the time.
std::vector<double> sigmoid_alphas(int64_t count) {
  constexpr double kEnd = 3;
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const auto bar = [&](int64_t i) {
    const double t = static_cast<double>(i) / static_cast<double>(count);
    return (sigmoid(kEnd) - sigmoid((2 * t - 1) * kEnd)) / (sigmoid(kEnd) - sigmoid(-kEnd));
  };
  std::vector<double> all;
  double product = 1;
  for (int64_t i = 0; i < count; ++i) {
    const double beta = std::clamp(1 - bar(i + 1) / bar(i), 0.0, 0.999);
    product *= static_cast<double>(1 - static_cast<float>(beta));
    all.push_back(product);
  }
  return all;
}

// DDIM with predictions of the velocity. Times lie between -1 and the last one, and lose their
// fraction. The last step ends without noise.
DiffusionSampler read_oasis_steps(const Config& config) {
  const int64_t levels = bounded(config, "max_noise_level", config.integer("max_noise_level"), 1e6);
  const int64_t steps = bounded(config, "ddim_steps", config.integer("ddim_steps"), levels);
  const std::vector<double> alphas = sigmoid_alphas(levels);
  const auto time_of = [&](int64_t i) {
    return static_cast<int64_t>(-1 + static_cast<float>(levels) * static_cast<float>(i) /
                                         static_cast<float>(steps));
  };
  DiffusionSampler sampler;
  for (int64_t i = steps; i >= 1; --i) {
    const int64_t time = time_of(i), next = time_of(i - 1);
    const double a = alphas[static_cast<size_t>(time)];
    const double to = i == 1 ? 1 : alphas[static_cast<size_t>(next < 0 ? time : next)];
    const double image = std::sqrt(to), noise = std::sqrt(1 - to);
    sampler.steps.push_back({.time = static_cast<double>(time),
                             .latent = image * std::sqrt(a) + noise * std::sqrt(1 - a),
                             .prediction = noise * std::sqrt(a) - image * std::sqrt(1 - a)});
  }
  return sampler;
}

PatchNet read_patch_net(const Config& vae, const std::string& prefix) {
  PatchNet net;
  net.hidden = read_size(vae, prefix + "_dim");
  net.layers = read_count(vae, prefix + "_depth");
  net.heads = read_count(vae, prefix + "_heads");
  // A quarter of a head turns by the row, and a quarter by the column.
  if (net.hidden % net.heads != 0 || net.hidden / net.heads % 8 != 0)
    vae.fail_at(prefix + "_heads", "a head must have a multiple of 8 channels");
  net.mlp = oasis_mlp_width(vae, net.hidden);
  return net;
}

void read_oasis_transformer(const Config& config, OasisConfig& c) {
  c.rows = read_count(config, "input_h");
  c.columns = read_count(config, "input_w");
  c.channels = read_count(config, "in_channels");
  c.patch = read_count(config, "patch_size");
  for (const char* key : {"input_h", "input_w"})
    if (config.integer(key) % c.patch != 0 || config.integer(key) < 2 * c.patch)
      config.fail_at(key, "it must be a multiple of patch_size, with two patches or more");
  c.hidden = read_size(config, "hidden_size");
  c.layers = read_count(config, "depth");
  c.heads = read_count(config, "num_heads");
  if (c.hidden % c.heads != 0 || c.head_dim() % 4 != 0)
    config.fail_at("num_heads", "a head must have a multiple of 4 channels");
  c.mlp = oasis_mlp_width(config, c.hidden);
  c.actions = read_count(config, "external_cond_dim");
  c.window = read_count(config, "max_frames");
}

void read_oasis_vae(const Config& config, OasisConfig& c) {
  c.vae_patch = read_count(config, "patch_size");
  c.encoder = read_patch_net(config, "enc");
  c.decoder = read_patch_net(config, "dec");
  c.variational = config.boolean("use_variational", true);
  if (config.integer("latent_dim") != c.channels)
    config.fail_at("latent_dim", "it must be in_channels of model");
  if (config.integer("input_height") != c.rows * c.vae_patch)
    config.fail_at("input_height", "it must be patch_size times input_h of model");
  if (config.integer("input_width") != c.columns * c.vae_patch)
    config.fail_at("input_width", "it must be patch_size times input_w of model");
}

}  // namespace

OasisConfig read_oasis(const Config& config) {
  OasisConfig c;
  c.prompt_frames = read_count(config, "n_prompt_frames");
  c.frames = read_count(config, "num_frames");
  if (c.frames <= c.prompt_frames)
    config.fail_at("num_frames", "it must be more than n_prompt_frames");
  read_oasis_transformer(config.child("model"), c);
  read_oasis_vae(config.child("vae"), c);
  c.scaling = config.number("scaling_factor");
  if (!(c.scaling > 0)) config.fail_at("scaling_factor", "it must be above 0");
  c.noise_most = config.number("noise_abs_max");
  if (!(c.noise_most > 0)) config.fail_at("noise_abs_max", "it must be above 0");
  c.sampler = read_oasis_steps(config);
  c.seen_time = static_cast<double>(bounded(config, "stabilization_level",
                                            config.integer("stabilization_level"),
                                            config.integer("max_noise_level")) -
                                    1);
  return c;
}

std::vector<double> pixel_angles(int64_t rows, int64_t columns, int64_t each, double most) {
  const auto spread = [](int64_t i, int64_t count) {
    return count == 1 ? -1.0 : -1 + 2 * static_cast<double>(i) / static_cast<double>(count - 1);
  };
  const int64_t pairs = each / 2;
  std::vector<double> all;
  for (int64_t t = 0; t < rows * columns; ++t)
    for (const double place : {spread(t / columns, rows), spread(t % columns, columns)})
      for (int64_t i = 0; i < each; ++i) {
        const double share =
            pairs == 1 ? 0 : static_cast<double>(i / 2) / static_cast<double>(pairs - 1);
        all.push_back(place * std::numbers::pi * (1 + share * (most / 2 - 1)));
      }
  return all;
}

std::vector<double> frame_angles(int64_t frames, int64_t width) {
  std::vector<double> all;
  for (int64_t t = 0; t < frames; ++t)
    for (int64_t i = 0; i < width; ++i)
      all.push_back(static_cast<double>(t) * std::pow(10000.0, -static_cast<double>(i / 2 * 2) /
                                                                   static_cast<double>(width)));
  return all;
}

}  // namespace fk::parts
