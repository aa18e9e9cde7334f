// SPDX-License-Identifier: Apache-2.0
// If this fails, a sampler makes other steps than diffusers' scheduler (samplers.py).
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/json.hpp"
#include "core/engines/denoise/engine.hpp"
#include "test/catch.hpp"

namespace {

using Numbers = std::vector<double>;

fk::Json recorded_samplers() { return fk::Config::load(SAMPLERS).json().at("cases"); }

// The largest difference, as a share of the largest number.
double apart_by(const Numbers& got, const Numbers& want) {
  double most = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    most = std::max(most, std::fabs(got[i] - want[i]));
    size = std::max(size, std::fabs(want[i]));
  }
  return most / size;
}

fk::DiffusionSampler sampler_with(const fk::Json& keys, int64_t steps) {
  return fk::read_sampler(fk::Config(keys, "scheduler"), steps);
}

}  // namespace

TEST_CASE("steps of samplers are those of diffusers") {
  constexpr double kMost = 1e-6;
  const fk::Json cases = recorded_samplers();
  for (const auto& [name, c] : cases.items()) {
    INFO(name);
    const fk::Config config(c.at("scheduler"), name);
    const fk::DiffusionSampler sampler = fk::read_sampler(config, c.at("steps"), c.at("tokens"));
    const fk::Json& rows = c.at("rows");
    REQUIRE(sampler.steps.size() == rows.size());
    CHECK(apart_by({sampler.noise}, {c.at("noise")}) < kMost);
    Numbers x = c.at("first");
    for (size_t i = 0; i < rows.size(); ++i) {
      INFO("step " << i);
      const fk::DenoiseStep& step = sampler.steps[i];
      const Numbers prediction = rows[i].at("prediction"), next = rows[i].at("next");
      CHECK(std::fabs(step.time - rows[i].at("time").get<double>()) <= kMost * 1000);
      Numbers scaled, got;
      for (size_t k = 0; k < x.size(); ++k) {
        scaled.push_back(x[k] * step.scale);
        got.push_back(step.latent * x[k] + step.prediction * prediction[k] +
                      step.clipped * std::clamp(prediction[k], -sampler.range, sampler.range));
      }
      CHECK(apart_by(scaled, rows[i].at("scaled")) < kMost);
      CHECK(apart_by(got, next) < kMost);
      x = next;
    }
  }
}

TEST_CASE("a scheduler with a value that is not implemented is refused") {
  const fk::Json ddim = recorded_samplers().at("dp3").at("scheduler");
  const auto refused = [&](const char* key, const fk::Json& value) {
    fk::Json keys = ddim;
    keys[key] = value;
    return message_of<fk::Error>([&] { sampler_with(keys, 10); });
  };
  CHECK_THAT(refused("_class_name", "DDIMSchedular"), ContainsSubstring("DDIMScheduler"));
  CHECK_THAT(refused("beta_schedule", "sigmoid"), ContainsSubstring("beta_schedule"));
  CHECK_THAT(refused("prediction_type", "epsilon"), ContainsSubstring("clip_sample"));
  CHECK_THAT(refused("thresholding", true), ContainsSubstring("only false"));
  CHECK_THAT(refused("beta_end", 1.5), ContainsSubstring("beta_start"));
  CHECK_THAT(refused("steps_offset", 20), ContainsSubstring("times of the training"));
  CHECK_THAT(message_of<fk::Error>([&] { sampler_with(ddim, 101); }),
             ContainsSubstring("between 1 and 100"));
}
