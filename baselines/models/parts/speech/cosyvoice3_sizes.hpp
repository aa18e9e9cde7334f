// SPDX-License-Identifier: Apache-2.0
// The sizes of CosyVoice 3 from its configuration (registry/models/README.md).
#pragma once
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "baselines/models/parts/sizes.hpp"
#include "core/engines/denoise/engine.hpp"

namespace fk {

struct SpeechSizes {
  using Ints = std::vector<int64_t>;
  // Tokens of a request with those of its prompt, and frames of a spectrogram for each token.
  int64_t tokens = 0, prompt_tokens = 0, ratio = 0, voice = 0;
  // The flow.
  int64_t vocabulary = 0, mel = 0, ahead = 0, ahead_channels = 0;
  int64_t dim = 0, layers = 0, heads = 0, head_dim = 0, mlp = 0;
  double guidance = 0;
  DiffusionSampler sampler;
  // The vocoder. Its levels have rates and taps of their own.
  int64_t base_channels = 0, harmonics = 0, n_fft = 0, hop = 0, ahead_of_sound = 0;
  int64_t pitch_channels = 0;
  double sample_rate = 0, amplitude = 0, noise_std = 0, voiced_threshold = 0, slope = 0, limit = 0;
  Ints rates, rate_taps, taps, source_taps;
  std::vector<Ints> dilations, source_dilations;

  int64_t frames() const { return tokens * ratio; }
  int64_t prompt_frames() const { return prompt_tokens * ratio; }
  int64_t sound_frames() const { return frames() - prompt_frames(); }
  int64_t frame_samples() const {
    int64_t all = hop;
    for (const int64_t rate : rates) all *= rate;
    return all;
  }
  // By how much the levels behind `level` raise the rate.
  int64_t rate_behind(int64_t level) const {
    int64_t all = 1;
    for (size_t i = static_cast<size_t>(level) + 1; i < rates.size(); ++i) all *= rates[i];
    return all;
  }
};

namespace cosyvoice3 {

using parts::bounded;
using parts::read_count;
using parts::read_size;
using Ints = SpeechSizes::Ints;

inline constexpr int64_t kTapsMost = 255, kLevelsMost = 8, kRateMost = 64;

inline Ints read_list(const Config& config, const std::string& key, int64_t most, size_t count) {
  Ints list = config.integers(key);
  if (list.empty() || (count > 0 && list.size() != count))
    config.fail_at(key,
                   count > 0 ? "it needs " + std::to_string(count) + " numbers" : "it is empty");
  for (const int64_t value : list) bounded(config, key, value, most);
  return list;
}

// A list of numbers for each kernel.
inline std::vector<Ints> read_lists(const Config& config, const std::string& key, size_t count) {
  std::vector<Ints> all;
  const Json& json = config.json();
  config.ignore(key);
  if (!json.contains(key) || !json[key].is_array() || json[key].size() != count)
    config.fail_at(key, "it needs " + std::to_string(count) + " lists");
  for (const Json& list : json[key]) {
    if (!list.is_array() || list.empty()) config.fail_at(key, "it needs lists of numbers");
    Ints& numbers = all.emplace_back();
    for (const Json& number : list) {
      if (!number.is_number_integer()) config.fail_at(key, "it needs lists of whole numbers");
      numbers.push_back(bounded(config, key, number.get<int64_t>(), 255));
    }
  }
  return all;
}

// Cosines or sines by which a frame's channels turn, pair by pair, [frames, width of a head].
inline std::vector<double> turns_of(const SpeechSizes& c, double (*wave)(double)) {
  std::vector<double> all;
  for (int64_t t = 0; t < c.frames(); ++t)
    for (int64_t i = 0; i < c.head_dim; ++i) {
      const double pair = static_cast<double>(i / 2 * 2) / static_cast<double>(c.head_dim);
      all.push_back(wave(static_cast<double>(t) * std::pow(10000.0, -pair)));
    }
  return all;
}
// Hann's window, which begins with 0 and would end with it one sample behind its end.
inline std::vector<double> window_of(int64_t size) {
  std::vector<double> all;
  for (int64_t i = 0; i < size; ++i)
    all.push_back(0.5 -
                  0.5 * std::cos(2 * M_PI * static_cast<double>(i) / static_cast<double>(size)));
  return all;
}

// Steps of flow matching from noise at time 0 to a spectrogram at time 1.
inline DiffusionSampler read_steps(const Config& config, const Config& flow) {
  const int64_t count = read_count(config, "num_inference_steps");
  const std::string schedule = flow.text("t_scheduler", "cosine");
  if (schedule != "cosine" && schedule != "linear")
    flow.fail_at("t_scheduler", "it must be `cosine` or `linear`");
  const auto time = [&](int64_t i) {
    const double t = static_cast<double>(i) / static_cast<double>(count);
    return schedule == "cosine" ? 1 - std::cos(t * M_PI / 2) : t;
  };
  DiffusionSampler sampler;
  for (int64_t i = 0; i < count; ++i)
    sampler.steps.push_back({.time = time(i), .latent = 1, .prediction = time(i + 1) - time(i)});
  return sampler;
}

inline void read_flow(const Config& config, SpeechSizes& c) {
  const Config f = config.child("flow");
  c.vocabulary = read_size(f, "vocab_size");
  c.mel = read_count(f, "output_size");
  if (read_count(f, "input_size") != c.mel) f.fail_at("input_size", "it must be output_size");
  c.ahead = bounded(f, "pre_lookahead_len", f.integer("pre_lookahead_len"), kTapsMost - 1);
  c.ahead_channels = read_size(f, "pre_lookahead_channels");
  c.dim = read_size(f, "dim");
  constexpr int64_t kGroups = 16;  // of the convolutions which tell places
  if (c.dim % kGroups != 0) f.fail_at("dim", "it must be a multiple of 16");
  c.layers = read_count(f, "depth");
  c.heads = read_count(f, "heads");
  c.head_dim = read_count(f, "dim_head");
  if (c.head_dim % 2 != 0) f.fail_at("dim_head", "it must be even");
  c.mlp = c.dim * bounded(f, "ff_mult", f.integer("ff_mult"), 64);
  c.guidance = f.number("inference_cfg_rate");
  if (!(c.guidance > 0)) f.fail_at("inference_cfg_rate", "it must be positive");
  c.sampler = read_steps(config, f);
}

inline void read_vocoder(const Config& config, SpeechSizes& c) {
  const Config h = config.child("hift"), frame = h.child("istft_params");
  c.base_channels = read_size(h, "base_channels");
  c.harmonics = read_count(h, "nb_harmonics");
  c.amplitude = h.number("nsf_alpha");
  c.noise_std = h.number("nsf_sigma");
  c.voiced_threshold = h.number("nsf_voiced_threshold");
  c.slope = h.number("lrelu_slope");
  c.limit = h.number("audio_limit");
  for (const char* key : {"lrelu_slope", "audio_limit"})
    if (h.number(key) < 0.001) h.fail_at(key, "it must be at least 0.001");
  c.n_fft = bounded(frame, "n_fft", frame.integer("n_fft"), 8191);
  c.hop = read_count(frame, "hop_len");
  if (c.n_fft % 2 != 0 || 2 * c.hop > c.n_fft)
    frame.fail_at("n_fft", "it must be even, and at least twice hop_len");
  c.ahead_of_sound = bounded(h, "conv_pre_look_right", h.integer("conv_pre_look_right"), 254);
  c.pitch_channels = read_size(h, "f0_cond_channels");
  c.rates = read_list(h, "upsample_rates", kRateMost, 0);
  const size_t levels = c.rates.size();
  if (levels > kLevelsMost || c.base_channels >> levels << levels != c.base_channels)
    h.fail_at("upsample_rates", "each level halves base_channels");
  if (2 * c.rate_behind(0) > kTapsMost)
    h.fail_at("upsample_rates", "the later rates have a product of at most 127");
  c.rate_taps = read_list(h, "upsample_kernel_sizes", kTapsMost, levels);
  const auto read_blocks = [&](const std::string& prefix, Ints& taps, std::vector<Ints>& all,
                               size_t count) {
    taps = read_list(h, prefix + "resblock_kernel_sizes", kTapsMost, count);
    for (const int64_t size : taps)
      if (size % 2 == 0) h.fail_at(prefix + "resblock_kernel_sizes", "each must be odd");
    all = read_lists(h, prefix + "resblock_dilation_sizes", taps.size());
  };
  read_blocks("", c.taps, c.dilations, 0);
  read_blocks("source_", c.source_taps, c.source_dilations, levels);
}

}  // namespace cosyvoice3

inline SpeechSizes read_cosyvoice3(const Config& config) {
  using namespace cosyvoice3;
  SpeechSizes c;
  c.sample_rate = config.number("sample_rate");
  if (!(c.sample_rate >= 1)) config.fail_at("sample_rate", "it must be at least 1");
  c.voice = read_size(config, "spk_embed_dim");
  c.ratio = bounded(config, "token_mel_ratio", config.integer("token_mel_ratio"), 255);
  c.tokens = read_size(config, "num_tokens");
  c.prompt_tokens = read_size(config, "num_prompt_tokens");
  if (c.prompt_tokens >= c.tokens)
    config.fail_at("num_prompt_tokens", "num_tokens has no token behind the prompt's");
  read_flow(config, c);
  read_vocoder(config, c);
  return c;
}

}  // namespace fk
