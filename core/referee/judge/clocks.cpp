// SPDX-License-Identifier: Apache-2.0
#include "core/referee/judge/clocks.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>

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

namespace {

// How much longer new contents take at least; below 1: as long.
double least_of_fresh(const FreshSamples& s) {
  if (s.fresh_s.empty() || s.seen_s.empty()) return 0;
  return *std::min_element(s.fresh_s.begin(), s.fresh_s.end()) / quantile(s.seen_s, 0.75);
}

}  // namespace

std::string remembered_answers(const FreshSamples& candidate, const FreshSamples& baseline) {
  if (candidate.fresh_s.size() < 2 || baseline.fresh_s.empty() || candidate.seen_s.empty() ||
      baseline.seen_s.empty())
    return "";
  const double limit = candidate.fresh_s.size() < 4 ? 1.5 : 1.25;
  const double mine = least_of_fresh(candidate), theirs = least_of_fresh(baseline);
  const double seen = quantile(candidate.seen_s, 0.75);
  const double fresh = *std::min_element(candidate.fresh_s.begin(), candidate.fresh_s.end());
  if (mine <= limit * std::max(1.0, theirs) || fresh - seen < kResolution) return "";
  return "calls on contents that it has seen take " + human_duration(seen) +
         ", as many on new ones at least " + human_duration(fresh) +
         "; the baseline takes as long for both: answers are remembered";
}

std::string early_work(const LateSamples& candidate, const LateSamples& baseline) {
  constexpr double kShort = 2.0 / 3;
  const auto all_short = [&](const LateSamples& s) {
    return !s.late_s.empty() && !s.usual_s.empty() &&
           *std::max_element(s.late_s.begin(), s.late_s.end()) < kShort * quantile(s.usual_s, 0.1);
  };
  if (!all_short(candidate) || all_short(baseline)) return "";
  return "calls that begin late take " + human_duration(quantile(candidate.late_s, 0.5)) +
         ", others " + human_duration(quantile(candidate.usual_s, 0.5)) +
         "; the baseline takes as long for both: the work begins before the clock does";
}

double waited_for_core_s(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/schedstat");
  int64_t worked_ns = 0, waited_ns = 0;
  return file >> worked_ns >> waited_ns ? 1e-9 * static_cast<double>(waited_ns) : 0;
}

bool cores_are_busy(const ClockSamples& baseline, const std::vector<double>& waited_s) {
  constexpr size_t kOften = 4;
  const size_t count = std::min(baseline.claims_s.size(), waited_s.size());
  size_t long_waits = 0;
  for (size_t i = 0; i < count; ++i) long_waits += waited_s[i] > baseline.claims_s[i] / 2;
  return long_waits * kOften > count;
}

void doubt_of_busy_cores(Ratio& ratio) {
  if (ratio.speed != Speed::faster) return;
  ratio.low = std::min(ratio.low, 1.0);
  ratio.speed = speed_of(ratio.low, ratio.high, RaceOptions().band);
}

std::string take_doubt_off(Ratio& ratio, const Doubts& candidate, const Doubts& baseline,
                           double calls_s) {
  constexpr double kLittle = 1.05;
  if (ratio.speed != Speed::faster || calls_s <= 0) return "";
  double unseen = 0;
  if (!candidate.clocks.claims_s.empty() && !baseline.clocks.claims_s.empty())
    unseen = std::max(
        0.0, difference_of(candidate.clocks).usual_s - difference_of(baseline.clocks).usual_s);
  const double early =
      std::max(0.0, quantile(candidate.late.early_s, 0.5) - quantile(baseline.late.early_s, 0.5));
  const double longer = std::max(
      1.0, least_of_fresh(candidate.fresh) / std::max(1.0, least_of_fresh(baseline.fresh)));
  const double factor = (1 + (unseen + early) / calls_s) * longer;
  Ratio doubtful = ratio;
  for (double* value : {&doubtful.value, &doubtful.low, &doubtful.high}) *value /= factor;
  doubtful.speed = speed_of(doubtful.low, doubtful.high, RaceOptions().band);
  if (doubtful.speed == ratio.speed && factor < kLittle) return "";
  ratio = doubtful;
  std::vector<std::string> parts;
  if (unseen > 0) parts.push_back(human_duration(unseen) + " that only the broker's clock sees");
  if (early > 0)
    parts.push_back(human_duration(early) + " that its threads work before a call that comes late");
  if (longer > 1)
    parts.push_back(std::to_string(std::lround(100 * (longer - 1))) +
                    " % for contents that nobody has seen");
  return "to the " + human_duration(calls_s) + " of a sample by its own clock are added " +
         join(parts, ", ");
}

}  // namespace fk
