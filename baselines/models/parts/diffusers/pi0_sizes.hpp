// SPDX-License-Identifier: Apache-2.0
// Sizes of Pi0, from its configuration.
#pragma once
#include "baselines/models/parts/sizes.hpp"
#include "baselines/models/parts/vit.hpp"
#include "core/engines/denoise/engine.hpp"
#include "core/exec/model.hpp"

namespace fk::parts {

inline constexpr int64_t kPiColours = 3;

struct GemmaSizes {
  int64_t hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, mlp = 0;
  double eps = 0, theta = 0;
};

struct Pi0Config {
  VitSizes tower;
  GemmaSizes text, expert;
  int64_t cameras = 0, text_tokens = 0, vocabulary = 0;
  int64_t chunk = 0, actions = 0, state = 0;
  double fastest = 0, slowest = 0;  // periods of an embedded time
  DiffusionSampler sampler;
  int64_t patches() const { return tower.side() * tower.side(); }
  int64_t prefix() const { return cameras * patches() + text_tokens; }
  int64_t suffix() const { return 1 + chunk; }  // the state, then the actions
  int64_t tokens() const { return prefix() + suffix(); }
};

inline GemmaSizes read_gemma(const Config& config) {
  GemmaSizes g;
  need_text(config, "hidden_act", "gelu_pytorch_tanh");
  need_boolean(config, {"attention_bias"}, false);
  need_boolean(config, {"use_bidirectional_attention"}, true);
  g.hidden = read_size(config, "hidden_size");
  g.layers = read_count(config, "num_hidden_layers");
  g.heads = read_count(config, "num_attention_heads");
  g.kv_heads = read_count(config, "num_key_value_heads");
  if (g.heads % g.kv_heads != 0)
    config.fail_at("num_key_value_heads", "it must divide num_attention_heads");
  g.head_dim = read_count(config, "head_dim");
  if (g.head_dim % 2 != 0 || g.head_dim < 4)
    config.fail_at("head_dim", "it must be even and at least 4");
  g.mlp = read_size(config, "intermediate_size");
  g.eps = config.number("rms_norm_eps");
  const Config rope = config.child("rope_parameters");
  need_text(rope, "rope_type", "default");
  g.theta = rope.number("rope_theta");
  if (!(g.theta >= 1)) rope.fail_at("rope_theta", "it must be at least 1");
  return g;
}

inline Pi0Config read_pi0(const Config& config) {
  Pi0Config c;
  const Config vlm = config.child("vlm_config"), vision = vlm.child("vision_config");
  c.tower = read_vit(vision, /*gated=*/false);
  read_patches(vision, c.tower);
  if (c.tower.image_size % c.tower.patch != 0)
    vision.fail_at("image_size", "it is not a multiple of patch_size");
  c.tower.eps = vision.number("layer_norm_eps");
  need_number(vision, "num_channels", kPiColours);
  need_boolean(vision, {"vision_use_head"}, false);
  const Config text = vlm.child("text_config");
  c.text = read_gemma(text);
  c.vocabulary = bounded(text, "vocab_size", text.integer("vocab_size"), 1 << 24);
  if (vlm.integer("projection_dim") != c.text.hidden)
    vlm.fail_at("projection_dim", "it must be hidden_size of text_config");
  const Config expert = config.child("dit_config");
  c.expert = read_gemma(expert);
  expert.ignore("vocab_size");  // of an embedding without a use
  if (c.expert.hidden % 2 != 0 || c.expert.hidden < 4)
    expert.fail_at("hidden_size", "it must be even and at least 4");
  const auto same = [&](const char* key, int64_t own, int64_t wanted) {
    if (own != wanted) expert.fail_at(key, "it must be that of text_config");
  };
  same("num_hidden_layers", c.expert.layers, c.text.layers);
  same("num_key_value_heads", c.expert.kv_heads, c.text.kv_heads);
  same("head_dim", c.expert.head_dim, c.text.head_dim);
  c.cameras = bounded(config, "num_cameras", config.integer("num_cameras"), 64);
  c.text_tokens = read_count(config, "tokenizer_max_length");
  c.chunk = read_count(config, "chunk_size");
  c.actions = read_count(config, "max_action_dim");
  c.state = read_count(config, "max_state_dim");
  c.fastest = config.number("min_period");
  c.slowest = config.number("max_period");
  if (!(c.fastest > 0 && c.slowest >= c.fastest))
    config.fail_at("min_period", "it needs 0 < min_period <= max_period");
  const int64_t steps = read_count(config, "num_inference_steps");
  for (int64_t i = 0; i < steps; ++i) {
    const double change = 1 / static_cast<double>(steps);
    c.sampler.steps.push_back(
        {.time = 1 - static_cast<double>(i) * change, .latent = 1, .prediction = -change});
  }
  return c;
}

}  // namespace fk::parts
