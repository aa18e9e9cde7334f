// SPDX-License-Identifier: Apache-2.0
// Steps of samplers, with the numbers of diffusers. Tables that it has in float32 are rounded to
// float32 here too.
#include <algorithm>
#include <cmath>

#include "core/base/text.hpp"
#include "core/engines/denoise/engine.hpp"

namespace fk {

namespace {

constexpr int64_t kTrainMost = 1 << 20;

double rounded(double x) { return static_cast<double>(static_cast<float>(x)); }

void need(const Config& c, std::string_view key, bool wanted) {
  if (c.boolean(key, wanted) != wanted)
    c.fail_at(key, wanted ? "only true is supported" : "only false is supported");
}

std::string choice(const Config& c, std::string_view key, const std::string& otherwise,
                   const std::vector<std::string>& known) {
  std::string text = c.text(key, otherwise);
  if (std::ranges::find(known, text) == known.end())
    c.fail_at(key, "`" + excerpt(text) + "` is not supported", did_you_mean(text, known));
  return text;
}

int64_t train_steps(const Config& c, int64_t steps) {
  const int64_t count = c.integer("num_train_timesteps", 1000);
  if (count < 2 || count > kTrainMost)
    c.fail_at("num_train_timesteps", "it must be between 2 and " + std::to_string(kTrainMost));
  if (steps < 1 || steps > count)
    c.fail_at("num_train_timesteps",
              "the number of steps must be between 1 and " + std::to_string(count));
  return count;
}

// Products of 1 - beta up to each time.
std::vector<double> cumulated_alphas(const Config& c, int64_t count) {
  const double first = c.number("beta_start", 0.0001), last = c.number("beta_end", 0.02);
  if (!(first > 0 && first <= last && last < 1))
    c.fail_at("beta_start", "it needs 0 < beta_start <= beta_end < 1");
  const std::string schedule =
      choice(c, "beta_schedule", "linear", {"linear", "scaled_linear", "squaredcos_cap_v2"});
  const auto share = [&](int64_t i) {
    return static_cast<double>(i) / static_cast<double>(count - 1);
  };
  const auto bar = [&](int64_t i) {
    constexpr double kPi = 3.14159265358979323846;
    const double t = static_cast<double>(i) / static_cast<double>(count);
    return std::pow(std::cos((t + 0.008) / 1.008 * kPi / 2), 2);
  };
  std::vector<double> all;
  double product = 1;
  for (int64_t i = 0; i < count; ++i) {
    double beta = 0;
    if (schedule == "linear")
      beta = first + (last - first) * share(i);
    else if (schedule == "scaled_linear")
      beta = std::pow(std::sqrt(first) + (std::sqrt(last) - std::sqrt(first)) * share(i), 2);
    else
      beta = std::min(1 - bar(i + 1) / bar(i), 0.999);
    product *= rounded(1 - rounded(beta));
    all.push_back(rounded(product));
  }
  return all;
}

// Times of the steps, the last one first.
std::vector<double> spaced_times(const Config& c, int64_t count, int64_t steps,
                                 const std::string& otherwise, bool whole) {
  const std::string spacing =
      choice(c, "timestep_spacing", otherwise, {"leading", "linspace", "trailing"});
  const int64_t offset = c.integer("steps_offset", 0);
  std::vector<double> times;
  for (int64_t i = 0; i < steps; ++i) {
    const auto back = static_cast<double>(steps - 1 - i);
    double time = 0;
    if (spacing == "leading") {
      time = back * static_cast<double>(count / steps) + static_cast<double>(offset);
    } else if (spacing == "linspace") {
      time =
          steps == 1 ? 0 : static_cast<double>(count - 1) * back / static_cast<double>(steps - 1);
      if (whole) time = std::nearbyint(time);
    } else {
      const double ratio = static_cast<double>(count) / static_cast<double>(steps);
      time = std::nearbyint(static_cast<double>(count) - static_cast<double>(i) * ratio) - 1;
    }
    if (time < 0 || time > static_cast<double>(count - 1))
      c.fail_at("steps_offset", "step " + std::to_string(i) + " is not one of the " +
                                    std::to_string(count) + " times of the training");
    times.push_back(time);
  }
  return times;
}

std::string predicted(const Config& c, const std::vector<std::string>& known) {
  need(c, "rescale_betas_zero_snr", false);
  if (c.has("trained_betas")) c.fail_at("trained_betas", "only a schedule of betas is supported");
  return choice(c, "prediction_type", "epsilon", known);
}

DiffusionSampler ddim(const Config& c, int64_t steps) {
  const int64_t count = train_steps(c, steps);
  const std::string kind = predicted(c, {"epsilon", "sample", "v_prediction"});
  need(c, "thresholding", false);
  const std::vector<double> alphas = cumulated_alphas(c, count);
  DiffusionSampler sampler;
  if (c.boolean("clip_sample", true)) {
    sampler.range = c.number("clip_sample_range", 1);
    if (!(sampler.range > 0)) c.fail_at("clip_sample_range", "it must be above 0");
    if (kind != "sample")
      c.fail_at("clip_sample", "true is supported where prediction_type is `sample`");
  }
  const double final_alpha = c.boolean("set_alpha_to_one", true) ? 1 : alphas[0];
  for (const double time : spaced_times(c, count, steps, "leading", true)) {
    const auto before = static_cast<int64_t>(time) - count / steps;
    const double a = alphas[static_cast<size_t>(time)];
    const double next = before >= 0 ? alphas[static_cast<size_t>(before)] : final_alpha;
    const double root = std::sqrt(a), noise = std::sqrt(1 - a);
    const double to = std::sqrt(next), rest = std::sqrt(1 - next);
    DenoiseStep step{.time = time};
    if (kind == "sample") {
      step.latent = rest / noise;
      step.prediction = -rest * root / noise;
      (sampler.range > 0 ? step.clipped : step.prediction) += to;
    } else if (kind == "epsilon") {
      step.latent = to / root;
      step.prediction = rest - to * noise / root;
    } else {
      step.latent = to * root + rest * noise;
      step.prediction = rest * root - to * noise;
    }
    sampler.steps.push_back(step);
  }
  return sampler;
}

DiffusionSampler euler(const Config& c, int64_t steps) {
  const int64_t count = train_steps(c, steps);
  const std::string kind = predicted(c, {"epsilon", "v_prediction"});
  for (const char* key : {"use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas"})
    need(c, key, false);
  choice(c, "interpolation_type", "linear", {"linear"});
  // Published configurations keep these keys of other schedulers.
  for (const char* key : {"clip_sample", "sample_max_value", "set_alpha_to_one", "skip_prk_steps"})
    c.ignore(key);
  choice(c, "timestep_type", "discrete", {"discrete"});
  const bool zero = choice(c, "final_sigmas_type", "zero", {"zero", "sigma_min"}) == "zero";
  std::vector<double> table;
  for (const double a : cumulated_alphas(c, count))
    table.push_back(rounded(std::sqrt((1 - a) / a)));
  const std::vector<double> times = spaced_times(c, count, steps, "linspace", false);
  std::vector<double> sigmas;
  for (const double time : times) {
    const auto below = std::min(static_cast<size_t>(time), table.size() - 2);
    const double part = time - static_cast<double>(below);
    sigmas.push_back(rounded(table[below] + part * (table[below + 1] - table[below])));
  }
  DiffusionSampler sampler;
  const double most = *std::ranges::max_element(sigmas);
  const bool leading = c.text("timestep_spacing", "linspace") == "leading";
  sampler.noise = leading ? std::sqrt(most * most + 1) : most;
  sigmas.push_back(zero ? 0 : table[0]);
  for (size_t i = 0; i < times.size(); ++i) {
    const double sigma = sigmas[i], change = sigmas[i + 1] - sigma, all = sigma * sigma + 1;
    DenoiseStep step{.time = times[i], .scale = 1 / std::sqrt(all)};
    const bool velocity = kind == "v_prediction";
    step.latent = velocity ? 1 + change * sigma / all : 1;
    step.prediction = velocity ? change / std::sqrt(all) : change;
    sampler.steps.push_back(step);
  }
  return sampler;
}

// With a number of tokens, times are those of FLUX's pipeline: from 1 down to one step. Without it
// they are the library's, whose range is itself shifted. A dynamic shift follows from the number.
DiffusionSampler flow_match(const Config& c, int64_t steps, int64_t tokens) {
  const auto count = static_cast<double>(train_steps(c, steps));
  for (const char* key : {"use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas",
                          "invert_sigmas", "stochastic_sampling"})
    need(c, key, false);
  if (c.number("shift_terminal", 0) != 0) c.fail_at("shift_terminal", "only null is supported");
  choice(c, "time_shift_type", "exponential", {"exponential"});
  const bool dynamic = c.boolean("use_dynamic_shifting", false);
  const double shift = c.number("shift", 1);
  if (!(shift > 0)) c.fail_at("shift", "it must be above 0");
  const double least = c.number("base_image_seq_len", 256),
               most = c.number("max_image_seq_len", 4096);
  const double low = c.number("base_shift", 0.5), high = c.number("max_shift", 1.15);
  if (dynamic && (tokens < 1 || !(least < most)))
    c.fail_at("use_dynamic_shifting", "it needs the number of tokens, and a range of numbers");
  const double slope = (high - low) / (most - least);
  const double factor =
      dynamic ? std::exp(low + (static_cast<double>(tokens) - least) * slope) : shift;
  const auto shifted = [&](double s) { return factor * s / (1 + (factor - 1) * s); };
  const double first = tokens > 0 ? 1 : shifted(1);
  const double last =
      tokens > 0 ? 1 / static_cast<double>(steps) : rounded(shifted(rounded(1 / count)));
  std::vector<double> sigmas;
  for (int64_t i = 0; i < steps; ++i) {
    const double share = steps == 1 ? 0 : static_cast<double>(i) / static_cast<double>(steps - 1);
    sigmas.push_back(rounded(shifted(first + (last - first) * share)));
  }
  sigmas.push_back(0);
  DiffusionSampler sampler;
  for (size_t i = 0; i + 1 < sigmas.size(); ++i)
    sampler.steps.push_back(
        {.time = rounded(sigmas[i] * count), .latent = 1, .prediction = sigmas[i + 1] - sigmas[i]});
  return sampler;
}

}  // namespace

DiffusionSampler read_sampler(const Config& scheduler, int64_t steps, int64_t tokens) {
  const std::string name =
      choice(scheduler, "_class_name", "",
             {"DDIMScheduler", "EulerDiscreteScheduler", "FlowMatchEulerDiscreteScheduler"});
  if (name == "DDIMScheduler") return ddim(scheduler, steps);
  if (name == "EulerDiscreteScheduler") return euler(scheduler, steps);
  return flow_match(scheduler, steps, tokens);
}

}  // namespace fk
