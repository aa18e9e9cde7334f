// SPDX-License-Identifier: Apache-2.0
#include "core/judge/race/sample_calls.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace fk {

namespace {

constexpr double kSamplesOfSlow = 20;  // most samples' time for one sample of the slower side
constexpr double kAsQuick = 1.5, kStillAsQuick = 1.8;
constexpr double kAsLong = 1.25;

int between(double count, int most) {
  return static_cast<int>(std::clamp(count, 1.0, static_cast<double>(std::max(most, 1))));
}

// The slower side's number for `quick_calls` of the faster one.
int as_long(int quick_calls, double ratio) {
  return std::max(1, static_cast<int>(std::lround(quick_calls / ratio)));
}

}  // namespace

SampleCalls calls_of_samples(double candidate_s, double baseline_s, double sample_s, int most) {
  const auto [quick, slow] = std::minmax(candidate_s, baseline_s);
  const double wanted =
      std::min(std::ceil(sample_s / std::min(quick, sample_s)), kSamplesOfSlow * sample_s / slow);
  const int calls = between(wanted, most);
  return {calls, calls};
}

SampleCalls calls_as_long(double candidate_s, double baseline_s, double sample_s, int most) {
  const auto [quick, slow] = std::minmax(candidate_s, baseline_s);
  const int calls = between(std::ceil(sample_s / std::min(quick, sample_s)), most);
  if (slow < kAsQuick * quick) return {calls, calls};
  const int fewer = as_long(calls, slow / quick);
  return candidate_s < baseline_s ? SampleCalls{calls, fewer} : SampleCalls{fewer, calls};
}

bool are_as_long(const SampleCalls& calls, double candidate_s, double baseline_s) {
  if (!(candidate_s > 0 && baseline_s > 0)) return true;  // there was no time for a race
  const auto [quick, slow] = std::minmax(candidate_s, baseline_s);
  if (calls.candidate == calls.baseline && slow < kStillAsQuick * quick) return true;
  const bool wins = candidate_s < baseline_s;
  const int of_quick = wins ? calls.candidate : calls.baseline,
            of_slow = wins ? calls.baseline : calls.candidate;
  if (std::abs(as_long(of_quick, slow / quick) - of_slow) <= 1) return true;
  const double longer = of_slow * slow / (of_quick * quick);
  return longer < kAsLong && longer > 1 / kAsLong;
}

}  // namespace fk
