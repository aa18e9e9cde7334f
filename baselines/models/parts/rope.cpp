// SPDX-License-Identifier: Apache-2.0
// Angles are computed in double: in float32 they would be wrong by 0.01 at position 100 000.
#include "baselines/models/parts/rope.hpp"

#include <cmath>
#include <numbers>

#include "core/base/text.hpp"

namespace fk::parts {

namespace {

// Both styles end in one object of parameters; the kind is `rope_type`, or `type` in old files.
void read_scaling(const Config& scaling, Rope& rope) {
  const std::string kind = scaling.text("rope_type", scaling.text("type", "default"));
  if (kind == "default") return;
  if (kind == "linear") {
    rope.linear_factor = scaling.number("factor");
    if (rope.linear_factor <= 0) scaling.fail_at("factor", "the factor is positive");
    return;
  }
  if (kind != "llama3") {
    scaling.fail("rope scaling of the kind `" + kind + "` is not implemented",
                 did_you_mean(kind, {"default", "linear", "llama3"}));
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

}  // namespace

Rope read_rope(const Config& config, int64_t head_dim) {
  Rope rope;
  double share = config.number("partial_rotary_factor", 1);
  rope.theta = config.number("rope_theta", rope.theta);
  if (config.has("rope_parameters")) {
    const Config parameters = config.child("rope_parameters");
    rope.theta = parameters.number("rope_theta", rope.theta);
    share = parameters.number("partial_rotary_factor", share);
    read_scaling(parameters, rope);
  } else if (config.has("rope_scaling")) {
    read_scaling(config.child("rope_scaling"), rope);
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
    steps.push_back(step);
  }
  return steps;
}

std::vector<double> rope_table(const Rope& rope, int64_t positions) {
  const std::vector<double> steps = rope_frequencies(rope);
  std::vector<double> table;
  table.reserve(static_cast<size_t>(positions * rope.rotary_dim));
  for (int64_t p = 0; p < positions; ++p) {
    for (const double step : steps) table.push_back(std::cos(static_cast<double>(p) * step));
    for (const double step : steps) table.push_back(std::sin(static_cast<double>(p) * step));
  }
  return table;
}

}  // namespace fk::parts
