// SPDX-License-Identifier: Apache-2.0
// Computes angles in double, because in float32 they would be wrong by 0.01 at position 100 000.
#include "baselines/models/parts/rope.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <optional>

#include "baselines/models/parts/sizes.hpp"
#include "core/base/text.hpp"

namespace fk::parts {

namespace {

double attention_scale(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

void read_yarn(const Config& scaling, Rope& rope) {
  rope.yarn = true;
  scaling.ignore("finetuned");  // a mark of YaRN's own models, which transformers ignores
  rope.beta_fast = scaling.number("beta_fast", rope.beta_fast);
  rope.beta_slow = scaling.number("beta_slow", rope.beta_slow);
  rope.truncate = scaling.boolean("truncate");
  if (!(rope.beta_slow > 0 && rope.beta_fast >= rope.beta_slow))
    scaling.fail_at("beta_fast", "it is at least beta_slow, which is positive");
  const double mscale = scaling.number("mscale", 0), all = scaling.number("mscale_all_dim", 0);
  rope.table_scale = scaling.number("attention_factor", mscale != 0 && all != 0
                                                            ? attention_scale(rope.factor, mscale) /
                                                                  attention_scale(rope.factor, all)
                                                            : attention_scale(rope.factor, 1));
  if (all != 0) rope.score_scale = std::pow(attention_scale(rope.factor, all), 2);
}

void read_llama3(const Config& scaling, Rope& rope) {
  rope.llama3 = true;
  rope.low_freq_factor = scaling.number("low_freq_factor");
  rope.high_freq_factor = scaling.number("high_freq_factor");
  if (!(rope.low_freq_factor > 0 && rope.high_freq_factor > rope.low_freq_factor)) {
    scaling.fail_at("high_freq_factor", "it is greater than low_freq_factor, which is positive");
  }
}

// The original positions are in the parameters, or (Phi-3) beside the parameters in the
// configuration.
void read_longrope(const Config& config, const Config& scaling, Rope& rope) {
  const auto whole = [](int64_t v) { return static_cast<double>(v); };
  if (config.has("original_max_position_embeddings"))
    rope.original_max_position = whole(read_size(config, "original_max_position_embeddings"));
  else
    rope.original_max_position = whole(read_size(scaling, "original_max_position_embeddings"));
  scaling.ignore("original_max_position_embeddings");
  const double most = whole(read_size(config, "max_position_embeddings"));
  const double factor = scaling.number("factor", most / rope.original_max_position);
  const double scale =
      factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(rope.original_max_position));
  rope.table_scale = scaling.number("attention_factor", scale);
  if (scaling.has("short_mscale")) {
    rope.table_scale = scaling.number("short_mscale");
    if (scaling.number("long_mscale") != rope.table_scale)
      scaling.fail_at("long_mscale", "only the value of `short_mscale` is supported");
  }
  rope.short_factors = scaling.numbers("short_factor");
  rope.long_factors = scaling.numbers("long_factor");
  for (const auto* list : {&rope.short_factors, &rope.long_factors})
    if (static_cast<int64_t>(list->size()) * 2 != rope.rotary_dim)
      scaling.fail("it has " + std::to_string(list->size()) + " factors for " +
                   std::to_string(rope.rotary_dim / 2) + " pairs of channels");
}

// Both styles end in one object of parameters; the kind is `rope_type`, or `type` in old files.
void read_scaling(const Config& config, const Config& scaling, Rope& rope) {
  const std::string type = scaling.text("type", "default");
  std::string kind = scaling.text("rope_type", type);
  if (kind == "su") kind = "longrope";  // the name in early files of Phi-3
  const std::vector<std::string> kinds{"default", "linear",   "dynamic",     "llama3",
                                       "yarn",    "longrope", "proportional"};
  if (kind == "mrope" && !rope.sections.empty()) return;
  if (!contains(kinds, kind))
    scaling.fail("rope scaling of the kind `" + excerpt(kind) + "` is not supported",
                 did_you_mean(kind, kinds));
  // Some checkpoints have the key for kinds without it. transformers ignores it there.
  if (kind == "default" || kind == "linear") scaling.ignore("original_max_position_embeddings");
  if (kind == "default") return;
  // Angles change beyond max_position_embeddings alone, which no request passes here.
  if (kind == "dynamic") {
    scaling.ignore("factor");
    scaling.ignore("original_max_position_embeddings");
    return;
  }
  if (kind == "longrope") return read_longrope(config, scaling, rope);
  if (kind == "proportional") {
    rope.turning = rope.rotary_dim;
    rope.linear_factor = scaling.number("factor", 1);
    return;
  }
  const double factor = scaling.number("factor");
  if (!(factor > 0)) scaling.fail_at("factor", "the factor is positive");
  if (kind == "linear") {
    rope.linear_factor = factor;
    return;
  }
  rope.factor = factor;
  rope.original_max_position =
      static_cast<double>(read_size(scaling, "original_max_position_embeddings"));
  kind == "yarn" ? read_yarn(scaling, rope) : read_llama3(scaling, rope);
}

// The stretched share of a pair of channels, 0 to 1.
double stretched(const Rope& rope, int64_t pair) {
  const auto width = static_cast<double>(rope.rotary_dim);
  // The index of the pair with this number of turns within the original positions.
  const auto index = [&](double turns) {
    return width * std::log(rope.original_max_position / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  double low = index(rope.beta_fast), high = index(rope.beta_slow);
  if (rope.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, width - 1);
  if (high == low) high += 0.001;
  return std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
}

}  // namespace

namespace {

// The rotated share of a head, from the configuration or from its rope's parameters.
double read_share(const Config& config, const RopeKeys& keys, const std::string& key,
                  double absent) {
  if (!keys.share.empty()) return config.number(key, absent);
  need_number(config, "partial_rotary_factor", 1);
  return 1;
}

int64_t rotated(const Config& config, int64_t head_dim, double share) {
  const auto channels = static_cast<int64_t>(static_cast<double>(head_dim) * share);
  if (share == 1 && head_dim % 2 != 0)
    config.fail("the head width " + std::to_string(head_dim) + " is odd, so it cannot be rotated");
  if (!(share > 0 && share <= 1) || channels < 2 || channels % 2 != 0)
    config.fail("a share of " + std::to_string(share) + " of " + std::to_string(head_dim) +
                " channels cannot be rotated in pairs");
  return channels;
}

void check_sections(const Config& config, const Rope& rope) {
  int64_t sum = 0;
  for (const int64_t pairs : rope.sections) sum += pairs < 0 ? rope.rotary_dim : pairs;
  if (rope.sections.size() != 3 || 2 * sum != rope.rotary_dim)
    config.fail("`mrope_section` divides the " + std::to_string(rope.rotary_dim / 2) +
                " pairs of a head between three axes");
}

}  // namespace

Rope read_rope(const Config& config, int64_t head_dim, const RopeKeys& keys) {
  Rope rope;
  rope.theta = config.number(keys.theta);
  double share = read_share(
      config, keys, config.has("partial_rotary_factor") ? "partial_rotary_factor" : keys.share,
      keys.share_default);
  // As in transformers 5: the old style counts where a file has both.
  const bool old = config.has("rope_scaling") && !config.child("rope_scaling").keys().empty();
  std::optional<Config> parameters;
  if (old) {
    config.ignore("rope_parameters");
    parameters = config.child("rope_scaling");
  } else if (config.has("rope_parameters")) {
    parameters = config.child("rope_parameters");
  }
  if (!keys.layer_type.empty()) {
    const bool sliding = keys.layer_type != "full_attention";
    // transformers' defaults have the key beside ropes by layer type too. It is known there and not
    // used.
    if (!keys.sliding_theta.empty()) config.has(keys.sliding_theta);
    if (!old && parameters && parameters->is_object(keys.layer_type)) {
      parameters = parameters->child(keys.layer_type);
    } else if (sliding) {
      parameters.reset();
      if (!keys.sliding_theta.empty()) rope.theta = config.number(keys.sliding_theta);
    }
  }
  if (parameters) {
    const Json absent{
        {"rope_theta", rope.theta},
        {"truncate", true},
        {"original_max_position_embeddings", config.integer("max_position_embeddings")}};
    const Config p = parameters->or_else(absent);
    rope.theta = p.number("rope_theta");
    share = read_share(p, keys, "partial_rotary_factor", share);
    rope.rotary_dim = rotated(config, head_dim, share);
    if (!keys.sections.empty()) {
      rope.sections = p.integers("mrope_section", keys.sections);
      need_boolean(p, {"mrope_interleaved"}, keys.interleaved_sections);
    }
    read_scaling(config, p, rope);
    if (rope.turning > 0) share = 1;
    if (!keys.query_beta.empty()) {
      rope.query_beta = p.number(keys.query_beta, 0);
      rope.original_max_position =
          static_cast<double>(read_size(p, "original_max_position_embeddings"));
      p.ignore("max_position_embeddings");
    }
  }
  rope.rotary_dim = rotated(config, head_dim, share);
  if (!(rope.theta > 0)) config.fail("rope_theta is positive");
  if (rope.sections.empty()) rope.sections = keys.sections;
  rope.interleaved_sections = keys.interleaved_sections;
  if (!keys.sections.empty()) check_sections(config, rope);
  return rope;
}

namespace {

// The steps with the longrope factors for a table of this number of positions.
std::vector<double> steps_of(const Rope& rope, int64_t positions) {
  std::vector<double> steps = rope_frequencies(rope);
  if (rope.short_factors.empty()) return steps;
  const bool beyond = static_cast<double>(positions) > rope.original_max_position;
  const auto& factors = beyond ? rope.long_factors : rope.short_factors;
  for (size_t i = 0; i < steps.size(); ++i) steps[i] /= factors[i];
  return steps;
}

}  // namespace

std::vector<double> rope_frequencies(const Rope& rope) {
  std::vector<double> steps;
  for (int64_t i = 0; i < rope.rotary_dim; i += 2) {
    const double share = static_cast<double>(i) / static_cast<double>(rope.rotary_dim);
    double step = std::pow(rope.theta, -share) / rope.linear_factor;
    if (rope.turning > 0 && i >= rope.turning) step = 0;
    if (rope.llama3) {
      const double turns = rope.original_max_position * step / (2 * std::numbers::pi);
      if (turns < rope.low_freq_factor) {
        step /= rope.factor;
      } else if (turns <= rope.high_freq_factor) {
        const double blend =
            (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
        step = (1 - blend) * step / rope.factor + blend * step;
      }
    }
    if (rope.yarn) {
      const double share_stretched = stretched(rope, i / 2);
      step = share_stretched * step / rope.factor + (1 - share_stretched) * step;
    }
    steps.push_back(step);
  }
  return steps;
}

int64_t axis_of(const Rope& rope, int64_t pair) {
  if (rope.interleaved_sections) {
    const int64_t axis = pair % 3;
    return pair < 3 * rope.sections[static_cast<size_t>(axis)] ? axis : 0;
  }
  if (pair < rope.sections[0]) return 0;
  return pair < rope.sections[0] + rope.sections[1] ? 1 : 2;
}

std::vector<double> rope_table(const Rope& rope, int64_t positions) {
  const std::vector<double> steps = steps_of(rope, positions);
  std::vector<double> table;
  table.reserve(static_cast<size_t>(positions * rope.rotary_dim));
  for (int64_t p = 0; p < positions; ++p) {
    for (const double step : steps)
      table.push_back(rope.table_scale * std::cos(static_cast<double>(p) * step));
    for (const double step : steps)
      table.push_back((rope.reversed ? -1 : 1) * rope.table_scale *
                      std::sin(static_cast<double>(p) * step));
  }
  return table;
}

std::vector<double> alibi_slopes(int64_t heads) {
  const auto all = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(heads)));
  std::vector<double> slopes;
  for (const int64_t first : {2, 1})
    for (int64_t i = first; i <= all; i += 2)
      slopes.push_back(std::exp2(-8 * static_cast<double>(i) / static_cast<double>(all)));
  if (all == heads) std::ranges::sort(slopes, std::greater<>());
  slopes.resize(static_cast<size_t>(heads));
  return slopes;
}

std::vector<double> query_scale_table(const Rope& rope, int64_t positions, int64_t head_dim) {
  std::vector<double> table(static_cast<size_t>(positions * head_dim));
  for (int64_t p = 0; p < positions; ++p) {
    const double times = std::floor(static_cast<double>(p) / rope.original_max_position);
    std::fill_n(table.begin() + p * head_dim, head_dim / 2,
                1 + rope.query_beta * std::log(1 + times));
  }
  return table;
}

std::vector<double> sinusoidal_table(int64_t positions, int64_t width, int64_t first,
                                     int64_t zero) {
  const int64_t half = width / 2;
  std::vector<double> table(static_cast<size_t>(positions * width));
  for (int64_t p = 0; p < positions; ++p) {
    if (p + first == zero) continue;
    for (int64_t i = 0; i < half; ++i) {
      const double step =
          std::exp(-std::log(10000.0) * static_cast<double>(i) / static_cast<double>(half - 1));
      const double angle = static_cast<double>(p + first) * step;
      table[static_cast<size_t>(p * width + i)] = std::sin(angle);
      table[static_cast<size_t>(p * width + half + i)] = std::cos(angle);
    }
  }
  return table;
}

}  // namespace fk::parts
