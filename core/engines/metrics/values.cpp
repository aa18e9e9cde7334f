// SPDX-License-Identifier: Apache-2.0
#include "core/engines/metrics/values.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/tensor/compare.hpp"

namespace fk {

namespace {

constexpr double kReroutedOfMedian = 8;

// Appends `got`'s values for each row of `want`. Returns empty, or the missing part.
std::string collect_result(const RequestResult& got, const RequestResult& want,
                           ComparedRows& rows) {
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

}  // namespace

double error_floor(const ErrorScale& scale) {
  return std::max(1e-5,
                  epsilon(scale.dtype) / 4 * std::sqrt(static_cast<double>(scale.layers + 1)));
}

std::string ValueMetric::collect(const Answers& got, const Answers& want,
                                 ComparedRows& rows) const {
  for (const auto& [id, wanted] : want) {
    const auto it = got.find(id);
    if (it == got.end()) return "a request is missing";
    if (!it->second.failed.empty()) return "a request failed: " + it->second.failed;
    if (const auto why = collect_result(it->second, wanted, rows); !why.empty()) return why;
  }
  if (rows.width == 0 || rows.values.empty()) return "there are no results";
  return {};
}

ErrorNumbers ValueMetric::compare(const Answers& got, const Answers& want, bool routed) const {
  ErrorNumbers errors;
  ComparedRows a, b;
  if (errors.wrong = collect(want, want, b); !errors.wrong.empty()) return errors;
  if (errors.wrong = collect(got, want, a); !errors.wrong.empty()) return errors;
  if (a.values.size() != b.values.size()) {
    errors.wrong = "the results have another size";
    return errors;
  }
  errors.rows = b.rows();
  measure(a, b, errors);
  if (routed) errors.rerouted = drop_rerouted(a, b);
  const Shape shape{b.rows(), b.width};
  const Difference d = fk::compare(TensorView(a.values.data(), DType::f32, shape),
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

ErrorLimits ValueMetric::baseline_limits(const ErrorNumbers& baseline,
                                         const ErrorScale& scale) const {
  const double most = std::max(scale.limit, scale.coarse);
  const bool best = scale.dtype == DType::f32 && scale.coarse > 0;
  return {most, 4 * most, baseline.rows / 4, best ? scale.limit : 0,
          limits(baseline, nullptr, 4 * most)};
}

ErrorLimits ValueMetric::candidate_limits(const ErrorNumbers& baseline,
                                          const ErrorScale& scale) const {
  const double floor = error_floor(scale);
  // The number of rerouted tokens varies by chance. Three standard deviations and 1 % more than the
  // baseline's are allowed.
  const auto rerouted = static_cast<double>(baseline.rerouted);
  ErrorLimits out{std::max(kOfBaseline * baseline.rms, floor),
                  std::max(kOfBaseline * baseline.worst1, 3 * floor),
                  static_cast<int64_t>(std::ceil(rerouted + 3 * std::sqrt(rerouted) +
                                                 static_cast<double>(baseline.rows) / 100)),
                  0,
                  {}};
  if (scale.dtype == DType::f32 && scale.coarse > 0) {
    out.rms = std::max(out.rms, scale.coarse);
    out.worst1 = std::max(out.worst1, 4 * scale.coarse);
    out.best5 = std::max(kOfBaseline * baseline.best5, floor);
  }
  out.more = limits(baseline, &baseline, out.worst1);
  return out;
}

}  // namespace fk
