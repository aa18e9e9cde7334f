// SPDX-License-Identifier: Apache-2.0
#include "core/scenario/metrics.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "core/measure/race_clock.hpp"

namespace fk {

namespace {

// Quantile 0.975 of Student's t. Beyond the table, a value that is slightly too large.
double student95(size_t freedom) {
  static constexpr double kTable[] = {HUGE_VAL, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365,
                                      2.306,    2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131};
  return kTable[std::min(freedom, std::size(kTable) - 1)];
}

}  // namespace

Figure figure_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {quantile(values, 0.5), quantile(values, 0.1), quantile(values, 0.9),
          static_cast<int64_t>(values.size())};
}

void SpeedSamples::add(const Round& round, bool together) {
  double prompt = 0, later = 0, last_first = round.start_s, first_first = round.end_s;
  for (const auto& [id, r] : round.requests) {
    // A request without tokens counts as one.
    prompt += static_cast<double>(std::max<size_t>(1, r.request.tokens.size()));
    const double first = r.token_s.empty() ? r.done_s : r.token_s.front();
    last_first = std::max(last_first, first);
    first_first = std::min(first_first, first);
    const auto arrived = round.arrived_s.find(id);
    first_token_s.push_back(first -
                            (arrived == round.arrived_s.end() ? round.start_s : arrived->second));
    const size_t count = r.token_s.size();
    if (count > 1)
      token_s.push_back((r.token_s.back() - r.token_s.front()) / static_cast<double>(count - 1));
  }
  const double decode_start = together ? last_first : first_first;
  for (const auto& [id, r] : round.requests)
    for (size_t i = 1; i < r.token_s.size(); ++i) later += r.token_s[i] > decode_start;
  total_s.push_back(round.end_s - round.start_s);
  if (last_first > round.start_s && round.arrived_s.empty())
    prefill_tokens_s.push_back(prompt / (last_first - round.start_s));
  if (later > 0 && round.end_s > decode_start)
    decode_tokens_s.push_back(later / (round.end_s - decode_start));
}

Speedup speedup_of(const std::vector<PairTimes>& pairs) {
  std::map<int, std::vector<double>> logs;  // by process
  Speedup s;
  for (const PairTimes& pair : pairs) {
    if (!(pair.baseline_s > 0 && pair.candidate_s > 0)) continue;
    logs[pair.process].push_back(std::log(pair.baseline_s / pair.candidate_s));
    ++s.pairs;
  }
  if (logs.empty()) return s;
  const auto count = static_cast<double>(logs.size());
  double sum = 0, squares = 0;
  for (const auto& [process, values] : logs) {
    const double median = quantile(values, 0.5);
    s.by_process.push_back(std::exp(median));
    sum += median;
  }
  const double mean = sum / count;
  for (const double ratio : s.by_process) squares += std::pow(std::log(ratio) - mean, 2);
  const double half = student95(logs.size() - 1) * std::sqrt(squares / (count - 1) / count);
  s.ratio = std::exp(mean);
  s.low = logs.size() > 1 ? std::exp(mean - half) : 0;
  s.high = logs.size() > 1 ? std::exp(mean + half) : HUGE_VAL;
  return s;
}

std::string speed_verdict(const Speedup& s) {
  if (s.by_process.size() < 2) return "cannot tell";
  if (s.low > 1.01) return "faster";
  if (s.high < 0.99) return "slower";
  return s.low > 0.97 && s.high < 1.03 ? "same" : "cannot tell";
}

}  // namespace fk
