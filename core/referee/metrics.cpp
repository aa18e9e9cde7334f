// SPDX-License-Identifier: Apache-2.0
#include "core/referee/metrics.hpp"

#include <algorithm>
#include <cmath>

#include "core/referee/timer.hpp"
#include "core/tensor/random.hpp"

namespace fk {

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
    first_token_s.push_back(first - round.start_s);
    const size_t count = r.token_s.size();
    if (count > 1)
      token_s.push_back((r.token_s.back() - r.token_s.front()) / static_cast<double>(count - 1));
  }
  const double decode_start = together ? last_first : first_first;
  for (const auto& [id, r] : round.requests)
    for (size_t i = 1; i < r.token_s.size(); ++i) later += r.token_s[i] > decode_start;
  total_s.push_back(round.end_s - round.start_s);
  if (last_first > round.start_s) prefill_tokens_s.push_back(prompt / (last_first - round.start_s));
  if (later > 0 && round.end_s > decode_start)
    decode_tokens_s.push_back(later / (round.end_s - decode_start));
}

Speedup speedup_of(const std::vector<double>& baseline_s, const std::vector<double>& candidate_s) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(baseline_s.size(), candidate_s.size()); ++i)
    if (candidate_s[i] > 0) ratios.push_back(baseline_s[i] / candidate_s[i]);
  if (ratios.empty()) return {};
  std::sort(ratios.begin(), ratios.end());
  Speedup s{quantile(ratios, 0.5), ratios.front(), ratios.back(),
            static_cast<int64_t>(ratios.size())};
  if (ratios.size() < 5) return s;
  constexpr int kResamples = 1000;
  Random random(1);
  std::vector<double> medians, sample(ratios.size());
  for (int i = 0; i < kResamples; ++i) {
    for (auto& value : sample)
      value = ratios[static_cast<size_t>(random.integer(0, static_cast<int64_t>(ratios.size())))];
    std::sort(sample.begin(), sample.end());
    medians.push_back(quantile(sample, 0.5));
  }
  std::sort(medians.begin(), medians.end());
  s.low = quantile(medians, 0.025);
  s.high = quantile(medians, 0.975);
  return s;
}

std::string speed_verdict(const Speedup& s) {
  if (s.pairs < 3) return "cannot tell";
  if (s.low > 1.01) return "faster";
  if (s.high < 0.99) return "slower";
  return s.low > 0.97 && s.high < 1.03 ? "same" : "cannot tell";
}

}  // namespace fk
