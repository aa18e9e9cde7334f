// SPDX-License-Identifier: Apache-2.0
// Angles are computed in double: in float32 they would be wrong by 0.01 at position 100 000.
#include "baselines/models/parts/rope.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/base/text.hpp"

namespace fk::parts {

namespace {

double attention_scale(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

void read_yarn(const Config& config, const Config& scaling, Rope& rope) {
  rope.yarn = true;
  rope.factor = scaling.number("factor");
  if (rope.factor <= 0) scaling.fail_at("factor", "the factor is positive");
  rope.original_max_position =
      static_cast<double>(scaling.has("original_max_position_embeddings")
                              ? scaling.integer("original_max_position_embeddings")
                              : config.integer("max_position_embeddings"));
  rope.beta_fast = scaling.number("beta_fast", rope.beta_fast);
  rope.beta_slow = scaling.number("beta_slow", rope.beta_slow);
  rope.truncate = scaling.boolean("truncate", true);
  if (!(rope.beta_slow > 0 && rope.beta_fast >= rope.beta_slow && rope.original_max_position > 0))
    scaling.fail_at("beta_fast", "it is at least beta_slow, which is positive");
  const double mscale = scaling.number("mscale", 0), all = scaling.number("mscale_all_dim", 0);
  rope.table_scale = scaling.number("attention_factor", mscale != 0 && all != 0
                                                            ? attention_scale(rope.factor, mscale) /
                                                                  attention_scale(rope.factor, all)
                                                            : attention_scale(rope.factor, 1));
  if (all != 0) rope.score_scale = std::pow(attention_scale(rope.factor, all), 2);
}

// Both styles end in one object of parameters; the kind is `rope_type`, or `type` in old files.
void read_scaling(const Config& config, const Config& scaling, Rope& rope) {
  const std::string kind = scaling.text("rope_type", scaling.text("type", "default"));
  if (kind == "default") return;
  if (kind == "linear") {
    rope.linear_factor = scaling.number("factor");
    if (rope.linear_factor <= 0) scaling.fail_at("factor", "the factor is positive");
    return;
  }
  if (kind == "yarn") return read_yarn(config, scaling, rope);
  if (kind != "llama3") {
    scaling.fail("rope scaling of the kind `" + kind + "` is not supported",
                 did_you_mean(kind, {"default", "linear", "llama3", "yarn"}));
  }
  rope.llama3 = true;
  rope.factor = scaling.number("factor");
  rope.low_freq_factor = scaling.number("low_freq_factor");
  rope.high_freq_factor = scaling.number("high_freq_factor");
  rope.original_max_position =
      static_cast<double>(scaling.integer("original_max_position_embeddings"));
  if (rope.factor <= 0) scaling.fail_at("factor", "the factor is positive");
  if (!(rope.low_freq_factor > 0 && rope.high_freq_factor > rope.low_freq_factor)) {
    scaling.fail_at("high_freq_factor", "it is greater than low_freq_factor, which is positive");
  }
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
  double share = config.number("partial_rotary_factor", 1);
  rope.theta = config.number("rope_theta", rope.theta);
  if (config.has("rope_parameters")) {
    const Config parameters = config.child("rope_parameters");
    rope.theta = parameters.number("rope_theta", rope.theta);
    share = parameters.number("partial_rotary_factor", share);
    read_scaling(config, parameters, rope);
  } else if (config.has("rope_scaling")) {
    read_scaling(config, config.child("rope_scaling"), rope);
  }
  if (!(rope.theta > 0)) config.fail("rope_theta is positive");
  rope.rotary_dim = static_cast<int64_t>(static_cast<double>(head_dim) * share);
  if (rope.rotary_dim < 2 || rope.rotary_dim > head_dim || rope.rotary_dim % 2 != 0) {
    config.fail("the rotary width is " + std::to_string(rope.rotary_dim) + " of a head width of " +
                std::to_string(head_dim) + "; it must be even and at most that");
  }
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
