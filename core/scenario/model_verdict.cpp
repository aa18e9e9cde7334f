// SPDX-License-Identifier: Apache-2.0
#include "core/scenario/model_verdict.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "core/base/error.hpp"
#include "core/scenario/run_report.hpp"
#include "core/tensor/compare.hpp"
#include "core/tensor/random.hpp"

namespace fk {

namespace {

std::string percent(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", value);
  return text;
}

// Calls `action` for each number of a round's results.
template <class Values, class Action>
void each_value(Values& round, const Action& action) {
  for (auto& [id, result] : round.requests) {
    for (auto& [position, logits] : result.logits)
      for (auto& value : logits) action(value);
    for (auto& tensor : result.tensors)
      for (auto& value : tensor.values) action(value);
  }
}

// Layers through which a pipeline of diffusers sends a latent in one step; 0: it is no pipeline. A
// U-Net has the layers of its levels on the way down and up, and those between. A layer of a world
// has two halves. A policy's expert sees what a language model keeps.
int64_t layers_of_step(const Config& config) {
  if (config.has("max_noise_level")) return 2 * config.child("model").integer("depth", 0);
  if (config.has("dit_config"))
    return config.child("dit_config").integer("num_hidden_layers", 0) +
           config.child("vlm_config").child("text_config").integer("num_hidden_layers", 0);
  if (config.has("transformer")) {
    const Config part = config.child("transformer");
    return part.integer("num_layers", 0) + part.integer("num_single_layers", 0);
  }
  if (!config.has("unet")) return 0;
  const Config part = config.child("unet");
  if (!part.is_list("transformer_layers_per_block")) return 0;
  const int64_t blocks = part.integer("layers_per_block", 1);
  int64_t layers = 2, deepest = 0;
  for (const int64_t depth : part.integers("transformer_layers_per_block")) {
    layers += (2 * blocks + 1) * (1 + depth);
    deepest = depth;
  }
  return layers + deepest;
}

}  // namespace

std::string judge_errors(const ErrorNumbers& e, const ErrorLimits& limits) {
  if (!e.wrong.empty()) return e.wrong;
  // Written so that NaN fails.
  if (!(e.rms <= limits.rms))
    return "the rms error is " + percent(e.rms) + " of the spread, allowed is " +
           percent(limits.rms) + "; " + e.pattern;
  if (limits.best5 > 0 && !(e.best5 <= limits.best5))
    return "the best 5 % of rows are off by " + percent(e.best5) +
           " of the spread or less, allowed is " + percent(limits.best5) + "; " + e.pattern;
  if (!(e.worst1 <= limits.worst1))
    return "the worst 1 % of the values are off by " + percent(e.worst1) +
           " of the spread, allowed is " + percent(limits.worst1) + "; " + e.pattern;
  if (e.rerouted > limits.rerouted)
    return std::to_string(e.rerouted) + " of " + std::to_string(e.rows) +
           " positions are far off, allowed are " + std::to_string(limits.rerouted);
  for (size_t i = 0; i < e.more.size(); ++i)
    if (!(e.more[i].value <= limits.more[i]))
      return e.more[i].words + ": " + percent(e.more[i].value) + ", allowed is " +
             percent(limits.more[i]) + "; " + e.pattern;
  return {};
}

double of_allowed(const ErrorNumbers& e, const ErrorLimits& limits) {
  if (!e.wrong.empty()) return HUGE_VAL;
  double worst = 0;
  const auto add = [&](double error, double limit) {
    const double quotient = error <= 0 ? 0 : error / limit;
    worst = std::isnan(quotient) ? HUGE_VAL : std::max(worst, quotient);
  };
  add(e.rms, limits.rms);
  add(e.worst1, limits.worst1);
  if (limits.best5 > 0) add(e.best5, limits.best5);
  add(static_cast<double>(e.rerouted), static_cast<double>(limits.rerouted));
  for (size_t i = 0; i < e.more.size(); ++i) add(e.more[i].value, limits.more[i]);
  return worst;
}

NullAnswer best_null_answer(const Round& want, const ErrorLimits& limits, bool routed,
                            const Metric& metric) {
  double sum = 0, count = 0;
  each_value(want, [&](float value) { sum += static_cast<double>(value), ++count; });
  const float mean = count > 0 ? static_cast<float>(sum / count) : 0;
  NullAnswer best{HUGE_VAL, 0};
  for (const float constant : {0.0F, mean}) {
    Round null = want;
    each_value(null, [&](float& value) { value = constant; });
    const double quotient =
        of_allowed(metric.compare(null.requests, want.requests, routed), limits);
    if (quotient < best.of_allowed) best = {quotient, static_cast<double>(constant)};
  }
  return best;
}

std::string untestable(const NullAnswer& mutant) {
  if (mutant.of_allowed > 1) return {};
  return "untestable: its answers vary so little that " +
         (mutant.value == 0 ? "zeros" : percent(mutant.value) + " everywhere") + " would pass";
}

std::vector<Request> audit_requests(const Round& timed, size_t count, uint64_t seed,
                                    const Engine& engine) {
  std::vector<const RequestResult*> all;
  for (const auto& [id, r] : timed.requests)
    if (r.failed.empty()) all.push_back(&r);
  std::stable_sort(all.begin(), all.end(),
                   [](const auto* a, const auto* b) { return a->apart > b->apart; });
  Random random(seed);
  std::vector<Request> list;
  while (list.size() < count && !all.empty()) {
    const bool furthest = list.size() < count / 2 && all[0]->apart > 0;
    const auto at = furthest ? 0 : random.integer(0, static_cast<int64_t>(all.size()));
    const RequestResult& r = *all[static_cast<size_t>(at)];
    all.erase(all.begin() + at);
    list.push_back(engine.audit_request(r));
  }
  return list;
}

std::string audit(const Round& timed, const Round& oracle, double tolerance,
                  const ErrorLimits& limits, bool routed, const Scenario& scenario) {
  int64_t checked = 0, strange = 0;
  std::string first;
  Answers tensors_got, tensors_want;
  for (const auto& [id, want] : oracle.requests) {
    const RequestResult& got = timed.requests.at(id);
    const AuditedTokens tokens = scenario.engine->audit(got, want, tolerance);
    if (tokens.unknown) return "the oracle has no logits for it";
    checked += tokens.checked;
    strange += tokens.strange;
    if (first.empty()) first = tokens.first;
    if (want.tensors.empty()) continue;
    tensors_got[id] = got;
    tensors_want[id] = want;
  }
  if (!tensors_want.empty()) {
    const ErrorNumbers e = scenario.metric->compare(tensors_got, tensors_want, routed);
    ErrorLimits wide{2 * limits.rms, 2 * limits.worst1, limits.rerouted + e.rows / 50, 0, {}};
    for (const double limit : limits.more) wide.more.push_back(2 * limit);
    if (const auto why = judge_errors(e, wide); !why.empty())
      return "results of the timed run do not follow from the model: " + why;
  }
  // A rerouted token has other logits.
  const int64_t allowed = routed ? checked / 20 + 1 : 0;
  if (strange <= allowed) return {};
  return "tokens of the timed run do not follow from the model: " + std::to_string(strange) +
         " of " + std::to_string(checked) + " checked, " + first;
}

int64_t layer_count(const Config& config) {
  if (config.has("num_hidden_layers"))
    return std::max<int64_t>(1, config.integer("num_hidden_layers"));
  int64_t layers = config.integer("n_layers", 0);
  for (const char* key : {"encoder_layers", "decoder_layers"}) layers += config.integer(key, 0);
  if (config.is_list("depths"))
    for (const int64_t depth : config.integers("depths")) layers += depth;
  layers += layers_of_step(config);
  return std::max<int64_t>(1, layers);
}

bool is_routed(const Config& config, DType dtype) {
  const auto has = [&](const char* key) { return config.has(key); };
  return dtype != DType::f32 &&
         (has("num_local_experts") || has("num_experts") || has("n_routed_experts"));
}

double coarse_limit(const Config& config, int64_t layers, const std::vector<OpRow>& ops) {
  // Models without these ops read such a checkpoint as floats, and round nothing.
  const bool rounds = std::ranges::any_of(
      ops, [](const OpRow& row) { return row.op.find("fp8") != std::string::npos; });
  if (!rounds || Quantization::of(config).inputs != "dynamic") return 0;
  return 0.2 * std::sqrt(static_cast<double>(layers));
}

}  // namespace fk
