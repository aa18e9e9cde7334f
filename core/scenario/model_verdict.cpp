// SPDX-License-Identifier: Apache-2.0
#include "core/scenario/model_verdict.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "core/base/error.hpp"
#include "core/engines/workload.hpp"
#include "core/tensor/compare.hpp"
#include "core/tensor/random.hpp"

namespace fk {

namespace {

constexpr int64_t kForced = 8;                         // tokens decoded per request
constexpr int64_t kLogitBytesMax = int64_t{64} << 20;  // for one request's prompt
constexpr double kReroutedOfMedian = 8, kOfBaseline = 1.5;

std::string percent(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", value);
  return text;
}

// All values of a round as rows of equal width, which divides each result's width. `want` has the
// required rows.
struct ComparedRows {
  int64_t width = 0;
  std::vector<float> values;
};

// Appends `got`'s values for each row of `want`. Returns empty, or the missing part.
std::string collect(const RequestResult& got, const RequestResult& want, ComparedRows& rows) {
  for (const auto& [position, logits] : want.logits) {
    const auto it = got.logits.find(position);
    if (it == got.logits.end())
      return "the logits of position " + std::to_string(position) + " are missing";
    rows.width = std::gcd(rows.width, static_cast<int64_t>(logits.size()));
    rows.values.insert(rows.values.end(), it->second.begin(), it->second.end());
  }
  for (const auto& tensor : want.tensors) {
    const auto it = std::find_if(got.tensors.begin(), got.tensors.end(),
                                 [&](const NamedTensor& g) { return g.name == tensor.name; });
    if (it == got.tensors.end() || it->shape != tensor.shape)
      return "the result " + tensor.name + " is missing or has another shape";
    rows.width = std::gcd(rows.width, tensor.shape.empty() ? 1 : tensor.shape.back());
    rows.values.insert(rows.values.end(), it->values.begin(), it->values.end());
  }
  return {};
}

std::string collect(const Round& got, const Round& want, ComparedRows& rows) {
  for (const auto& [id, wanted] : want.requests) {
    const auto it = got.requests.find(id);
    if (it == got.requests.end()) return "a request is missing";
    if (!it->second.failed.empty()) return "a request failed: " + it->second.failed;
    if (const auto why = collect(it->second, wanted, rows); !why.empty()) return why;
  }
  if (rows.width == 0 || rows.values.empty()) return "there are no results";
  return {};
}

std::vector<double> row_errors(const ComparedRows& got, const ComparedRows& want) {
  std::vector<double> errors;
  const auto width = static_cast<size_t>(want.width);
  for (size_t at = 0; at + width <= want.values.size(); at += width) {
    double sum = 0;
    for (size_t i = at; i < at + width; ++i) {
      const double e = static_cast<double>(got.values[i]) - static_cast<double>(want.values[i]);
      sum += e * e;
    }
    errors.push_back(std::sqrt(sum / static_cast<double>(width)));
  }
  return errors;
}

// Removes rows with outlying errors from both. Returns their number.
int64_t drop_rerouted(ComparedRows& got, ComparedRows& want) {
  const auto errors = row_errors(got, want);
  auto sorted = errors;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<int64_t>(sorted.size() / 2),
                   sorted.end());
  const double limit = kReroutedOfMedian * sorted[sorted.size() / 2];
  ComparedRows kept_got{got.width, {}}, kept_want{want.width, {}};
  int64_t dropped = 0;
  for (size_t row = 0; row < errors.size(); ++row) {
    // A NaN stays, so that it is found.
    if (errors[row] > limit) {
      ++dropped;
      continue;
    }
    const auto first = static_cast<int64_t>(row) * want.width;
    kept_got.values.insert(kept_got.values.end(), got.values.begin() + first,
                           got.values.begin() + first + want.width);
    kept_want.values.insert(kept_want.values.end(), want.values.begin() + first,
                            want.values.begin() + first + want.width);
  }
  got = std::move(kept_got);
  want = std::move(kept_want);
  return dropped;
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

// True when the token could have been chosen: its logit is within `tolerance` of the largest one,
// or of the k-th for sampling.
bool follows(const std::vector<float>& logits, int64_t token, const Sampling& sampling,
             double tolerance) {
  const double own = static_cast<double>(logits[static_cast<size_t>(token)]);
  if (sampling.temperature > 0) {
    if (sampling.top_k <= 0) return std::isfinite(own);
    const auto above = std::count_if(logits.begin(), logits.end(), [&](float v) {
      return static_cast<double>(v) > own + tolerance;
    });
    return above < sampling.top_k;
  }
  const float largest = *std::max_element(logits.begin(), logits.end());
  return own >= static_cast<double>(largest) - tolerance;
}

}  // namespace

std::vector<Request> correctness_requests(const Scenario& s, bool generates, uint64_t seed) {
  const Limits& l = s.limits;
  const int64_t context =
      s.max_positions > 0 ? std::min(l.max_context, s.max_positions) : l.max_context;
  const int64_t forced = generates ? std::max<int64_t>(1, std::min(kForced, context / 4)) : 0;
  const int64_t longest = std::max<int64_t>(1, context - forced);
  std::vector<Request> list;
  Random random(seed_of("correctness", seed));
  // Lengths: one crosses a chunk, one ends just behind a page, one on a page, one is short.
  for (const int64_t wanted :
       {l.chunk_tokens + l.chunk_tokens / 3 + 1, 2 * l.page_size + 1, l.page_size, int64_t{5}}) {
    Request r;
    r.id = list.size() + 1;
    // A model may have no tokens.
    const int64_t length = s.vocab_size > 0 ? std::clamp<int64_t>(wanted, 1, longest) : 0;
    for (int64_t i = 0; i < length; ++i) r.tokens.push_back(random.integer(0, s.vocab_size));
    for (int64_t i = 0; i < forced; ++i) r.forced.push_back(random.integer(0, s.vocab_size));
    add_tensors(r, s.tensors, seed_of("tensors of request " + std::to_string(r.id), seed));
    r.new_tokens = forced;
    r.logits = generates;
    r.prompt_logits = generates && length * s.vocab_size * 4 <= kLogitBytesMax;
    list.push_back(std::move(r));
  }
  return list;
}

ErrorNumbers compare_rounds(const Round& got, const Round& want, bool routed) {
  ErrorNumbers errors;
  ComparedRows a, b;
  if (errors.wrong = collect(want, want, b); !errors.wrong.empty()) return errors;
  if (errors.wrong = collect(got, want, a); !errors.wrong.empty()) return errors;
  if (a.values.size() != b.values.size()) {
    errors.wrong = "the results have another size";
    return errors;
  }
  errors.rows = static_cast<int64_t>(b.values.size()) / b.width;
  if (routed) errors.rerouted = drop_rerouted(a, b);
  const Shape shape{static_cast<int64_t>(b.values.size()) / b.width, b.width};
  const Difference d = compare(TensorView(a.values.data(), DType::f32, shape),
                               TensorView(b.values.data(), DType::f32, shape));
  errors.rms = d.rms_of_spread;
  errors.worst1 = d.worst1_of_spread;
  errors.spread = d.spread;
  auto rows = row_errors(a, b);
  for (double& row : rows)
    if (std::isnan(row)) row = HUGE_VAL;
  const auto at = static_cast<int64_t>(rows.size() / 20);
  std::nth_element(rows.begin(), rows.begin() + at, rows.end());
  errors.best5 = rows[static_cast<size_t>(at)] / d.spread;
  errors.values = d.numel;
  errors.pattern = d.pattern;
  if (d.nan_count > 0) errors.wrong = std::to_string(d.nan_count) + " results are NaN";
  return errors;
}

ErrorLimits baseline_limits(const ErrorNumbers& baseline, double limit, double coarse,
                            DType dtype) {
  const double most = std::max(limit, coarse);
  return {most, 4 * most, baseline.rows / 4, dtype == DType::f32 && coarse > 0 ? limit : 0};
}

ErrorLimits error_limits(const ErrorNumbers& baseline, DType dtype, int64_t layers, double coarse) {
  const double floor =
      std::max(1e-5, epsilon(dtype) / 4 * std::sqrt(static_cast<double>(layers + 1)));
  // The number of rerouted tokens varies by chance. Three standard deviations and 1 % more than the
  // baseline's are allowed.
  const auto rerouted = static_cast<double>(baseline.rerouted);
  ErrorLimits out{std::max(kOfBaseline * baseline.rms, floor),
                  std::max(kOfBaseline * baseline.worst1, 3 * floor),
                  static_cast<int64_t>(std::ceil(rerouted + 3 * std::sqrt(rerouted) +
                                                 static_cast<double>(baseline.rows) / 100))};
  if (dtype != DType::f32 || coarse <= 0) return out;
  out.rms = std::max(out.rms, coarse);
  out.worst1 = std::max(out.worst1, 4 * coarse);
  out.best5 = std::max(kOfBaseline * baseline.best5, floor);
  return out;
}

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
  return worst;
}

NullAnswer best_null_answer(const Round& want, const ErrorLimits& limits, bool routed) {
  double sum = 0, count = 0;
  each_value(want, [&](float value) { sum += static_cast<double>(value), ++count; });
  const float mean = count > 0 ? static_cast<float>(sum / count) : 0;
  NullAnswer best{HUGE_VAL, 0};
  for (const float constant : {0.0F, mean}) {
    Round null = want;
    each_value(null, [&](float& value) { value = constant; });
    const double quotient = of_allowed(compare_rounds(null, want, routed), limits);
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
                                    bool predicts_next) {
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
    Request request = r.request;
    if (request.new_tokens > 0 && predicts_next) {
      request.prompt_logits = true;
      request.first_logits = static_cast<int64_t>(request.tokens.size()) - 1;
      request.tokens.insert(request.tokens.end(), r.tokens.begin(), r.tokens.end() - 1);
      request.new_tokens = 0;
    } else {
      request.forced = r.tokens;
      request.order = r.order;
      request.logits = request.new_tokens > 0;
    }
    list.push_back(std::move(request));
  }
  return list;
}

std::string audit(const Round& timed, const Round& oracle, double tolerance,
                  const ErrorLimits& limits, bool routed, bool predicts_next) {
  int64_t checked = 0, strange = 0;
  std::string first;
  Round tensors_got, tensors_want;
  for (const auto& [id, want] : oracle.requests) {
    const RequestResult& got = timed.requests.at(id);
    const auto prompt = static_cast<int64_t>(got.request.tokens.size());
    for (size_t i = 0; i < got.tokens.size(); ++i) {
      const auto it = want.logits.find(prompt + static_cast<int64_t>(i) - (predicts_next ? 1 : 0));
      if (it == want.logits.end()) return "the oracle has no logits for it";
      ++checked;
      if (follows(it->second, got.tokens[i], got.request.sampling, tolerance)) continue;
      ++strange;
      if (first.empty())
        first = "token " + std::to_string(i) + " of request " + std::to_string(id) + " is " +
                std::to_string(got.tokens[i]);
    }
    if (want.tensors.empty()) continue;
    tensors_got.requests[id] = got;
    tensors_want.requests[id] = want;
  }
  if (!tensors_want.requests.empty()) {
    const ErrorNumbers e = compare_rounds(tensors_got, tensors_want, routed);
    const ErrorLimits wide{2 * limits.rms, 2 * limits.worst1, limits.rerouted + e.rows / 50};
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
  return std::max<int64_t>(1, layers);
}

bool is_routed(const Config& config, DType dtype) {
  const auto has = [&](const char* key) { return config.has(key); };
  return dtype != DType::f32 &&
         (has("num_local_experts") || has("num_experts") || has("n_routed_experts"));
}

double coarse_limit(const Config& config, int64_t layers) {
  if (!config.has("quantization_config")) return 0;
  const Config quantization = config.child("quantization_config");
  if (quantization.text("activation_scheme", "none") != "dynamic") return 0;
  return 0.2 * std::sqrt(static_cast<double>(layers));
}

}  // namespace fk
