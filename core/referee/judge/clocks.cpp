// SPDX-License-Identifier: Apache-2.0
#include "core/referee/judge/clocks.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/text.hpp"
#include "core/referee/timer.hpp"

namespace fk {

namespace {

constexpr double kShare = 0.05;        // of the calls' time, which may be a matter of taste
constexpr double kResolution = 40e-6;  // a process of many threads wakes up that much later

struct Difference {
  double usual_s = 0, error_s = 0;
};

// What is usual is the lower quartile: a busy machine adds to some samples, a slow clock to all.
Difference difference_of(const ClockSamples& samples) {
  std::vector<double> all;
  for (size_t i = 0; i < samples.claims_s.size(); ++i)
    all.push_back(samples.walls_s[i] - samples.claims_s[i]);
  Difference out;
  out.usual_s = quantile(all, 0.25);
  const double scatter = quantile(all, 0.5) - quantile(all, 0.1);
  out.error_s = 1.25 * scatter / std::sqrt(static_cast<double>(std::max<size_t>(all.size(), 1)));
  return out;
}

}  // namespace

std::string clock_disagreement(const ClockSamples& candidate, const ClockSamples& baseline,
                               double wake_s) {
  if (candidate.claims_s.empty() || baseline.claims_s.empty()) return "";
  const Difference mine = difference_of(candidate), theirs = difference_of(baseline);
  const double claimed = quantile(candidate.claims_s, 0.5);
  const double excess = mine.usual_s - theirs.usual_s - std::clamp(wake_s, 0.0, kWakeMost);
  const double allowed =
      kResolution + kShare * claimed + 4 * std::hypot(mine.error_s, theirs.error_s);
  if (excess <= allowed) return "";
  return "its own clock counts " + human_duration(claimed) + " for calls that take " +
         human_duration(claimed + excess) +
         " by the broker's clock, messages as long as the "
         "baseline's taken off";
}

std::string remembered_answers(const FreshSamples& candidate, const FreshSamples& baseline) {
  if (candidate.fresh_s.size() < 2 || baseline.fresh_s.empty() || candidate.seen_s.empty() ||
      baseline.seen_s.empty())
    return "";
  const double limit = candidate.fresh_s.size() < 4 ? 1.5 : 1.25;
  const auto least = [](const FreshSamples& s) {
    return *std::min_element(s.fresh_s.begin(), s.fresh_s.end()) / quantile(s.seen_s, 0.75);
  };
  const double mine = least(candidate), theirs = least(baseline);
  const double seen = quantile(candidate.seen_s, 0.75);
  const double fresh = *std::min_element(candidate.fresh_s.begin(), candidate.fresh_s.end());
  if (mine <= limit * std::max(1.0, theirs) || fresh - seen < kResolution) return "";
  return "calls on contents that it has seen take " + human_duration(seen) +
         ", as many on new ones at least " + human_duration(fresh) +
         "; the baseline takes as long for both: answers are remembered";
}

}  // namespace fk
