// SPDX-License-Identifier: Apache-2.0
// Angles are computed in double: in float32 they would be wrong by 0.01 at position 100 000.
#include "baselines/models/parts/rope.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "baselines/models/parts/sizes.hpp"
#include "core/base/text.hpp"

namespace fk::parts {

namespace {

double attention_scale(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

void read_yarn(const Config& scaling, Rope& rope) {
  rope.yarn = true;
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

// Both styles end in one object of parameters; the kind is `rope_type`, or `type` in old files.
void read_scaling(const Config& scaling, Rope& rope) {
  const std::string type = scaling.text("type", "default");
  const std::string kind = scaling.text("rope_type", type);
  const std::vector<std::string> kinds{"default", "linear", "llama3", "yarn"};
  if (!contains(kinds, kind))
    scaling.fail("rope scaling of the kind `" + excerpt(kind) + "` is not supported",
                 did_you_mean(kind, kinds));
  // Checkpoints keep it for kinds that do not use it, and transformers ignores it there.
  if (kind == "default" || kind == "linear") scaling.ignore("original_max_position_embeddings");
  if (kind == "default") return;
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

// The share of a pair of channels that is stretched, 0 to 1.
double stretched(const Rope& rope, int64_t pair) {
  const auto width = static_cast<double>(rope.rotary_dim);
  // The index of the pair that turns so often within the original positions.
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

Rope read_rope(const Config& config, int64_t head_dim) {
  Rope rope;
  rope.rotary_dim = head_dim;
  if (head_dim % 2 != 0)
    config.fail("the head width " + std::to_string(head_dim) + " is odd, so it cannot be rotated");
  rope.theta = config.number("rope_theta");
  need_number(config, "partial_rotary_factor", 1);
  const Json absent{
      {"rope_theta", rope.theta},
      {"truncate", true},
      {"original_max_position_embeddings", config.integer("max_position_embeddings")}};
  // As in transformers 5: the old style counts where a file has both.
  const bool old = config.has("rope_scaling") && !config.child("rope_scaling").keys().empty();
  const char* key = old ? "rope_scaling" : "rope_parameters";
  if (old) config.ignore("rope_parameters");
  if (config.has(key)) {
    const Config parameters = config.child(key).or_else(absent);
    rope.theta = parameters.number("rope_theta");
    need_number(parameters, "partial_rotary_factor", 1);
    read_scaling(parameters, rope);
  }
  if (!(rope.theta > 0)) config.fail("rope_theta is positive");
  return rope;
}

std::vector<double> rope_frequencies(const Rope& rope) {
  std::vector<double> steps;
  for (int64_t i = 0; i < rope.rotary_dim; i += 2) {
    const double share = static_cast<double>(i) / static_cast<double>(rope.rotary_dim);
    double step = std::pow(rope.theta, -share) / rope.linear_factor;
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

std::vector<double> rope_table(const Rope& rope, int64_t positions) {
  const std::vector<double> steps = rope_frequencies(rope);
  std::vector<double> table;
  table.reserve(static_cast<size_t>(positions * rope.rotary_dim));
  for (int64_t p = 0; p < positions; ++p) {
    for (const double step : steps)
      table.push_back(rope.table_scale * std::cos(static_cast<double>(p) * step));
    for (const double step : steps)
      table.push_back(rope.table_scale * std::sin(static_cast<double>(p) * step));
  }
  return table;
}

}  // namespace fk::parts
