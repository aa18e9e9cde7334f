// SPDX-License-Identifier: Apache-2.0
#include "core/judge/race/timing_penalty.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "core/base/text.hpp"
#include "core/measure/race_clock.hpp"

namespace fk {

namespace {

constexpr double kShare = 0.05;        // of the calls' time: a smaller penalty keeps the ratio
constexpr double kLittle = 1.05;       // ratios this close are nearly equal
constexpr double kResolution = 40e-6;  // late wake-up of a process of many threads
constexpr double kSure = 4;            // standard errors of a difference of clocks
constexpr int kRacesMost = 3;          // of race_while_faster()
constexpr int kConfident = 5;          // fewer blocks have a range in place of an interval

struct ClockDifference {
  double usual_s = 0, error_s = 0;
};

// Lower quartile: a busy machine adds to some samples, a slow clock to all.
ClockDifference difference_of(const ClockSamples& samples) {
  std::vector<double> all;
  for (size_t i = 0; i < samples.claims_s.size(); ++i)
    all.push_back(samples.walls_s[i] - samples.claims_s[i]);
  ClockDifference out;
  out.usual_s = quantile(all, 0.25);
  const double scatter = quantile(all, 0.5) - quantile(all, 0.1);
  out.error_s = 1.25 * scatter / std::sqrt(static_cast<double>(std::max<size_t>(all.size(), 1)));
  return out;
}

}  // namespace

double counted_s(double claim_s) { return std::max(claim_s, 1e-9); }

std::string clock_disagreement(const ClockSamples& candidate, const ClockSamples& baseline,
                               double wake_s) {
  if (candidate.claims_s.empty() || baseline.claims_s.empty()) return "";
  const ClockDifference mine = difference_of(candidate), theirs = difference_of(baseline);
  const double claimed = quantile(candidate.claims_s, 0.5);
  const double excess = mine.usual_s - theirs.usual_s - std::clamp(wake_s, 0.0, kWakeMost);
  const double allowed =
      kResolution + kShare * claimed + kSure * std::hypot(mine.error_s, theirs.error_s);
  if (excess <= allowed) return "";
  return "own clock: " + human_duration(claimed) + " for calls that take " +
         human_duration(claimed + excess) +
         " by the host's clock, less the baseline's message time";
}

double least_messages_s(const ClockSamples& baseline) {
  return baseline.claims_s.empty() ? 0 : difference_of(baseline).usual_s;
}

double messages_s(const ClockSamples& baseline) {
  std::vector<double> all;
  for (size_t i = 0; i < baseline.claims_s.size(); ++i)
    all.push_back(baseline.walls_s[i] - baseline.claims_s[i]);
  return quantile(all, 0.75);
}

double unseen_s(const ClockSamples& candidate, const ClockSamples& baseline) {
  if (candidate.claims_s.empty() || baseline.claims_s.empty()) return 0;
  return std::max(0.0, difference_of(candidate).usual_s - difference_of(baseline).usual_s);
}

namespace {

// Least ratio of new contents' time to seen ones'; below 1: no longer.
double least_of_fresh(const std::vector<double>& fresh_s, const std::vector<double>& seen_s) {
  if (fresh_s.empty() || seen_s.empty()) return 0;
  return *std::min_element(fresh_s.begin(), fresh_s.end()) / quantile(seen_s, 0.75);
}

// The longest believable ratio for the candidate. It also compares with the race: a candidate may
// compute everything from the first new contents on, and be as slow on seen ones afterwards. The
// baseline's ratio of few calls to many is taken off.
double longer_on_fresh(const FreshSamples& candidate, const FreshSamples& baseline) {
  double longer = least_of_fresh(candidate.fresh.believed_s, candidate.seen.claims_s);
  if (candidate.usual_s > 0 && baseline.usual_s > 0 && !baseline.seen.claims_s.empty()) {
    const double few = quantile(baseline.seen.claims_s, 0.5) - baseline.usual_s;
    const double expected = (1 + kShare) * candidate.usual_s + std::max(0.0, few);
    longer = std::max(longer, least_of_fresh(candidate.fresh.believed_s, {expected}));
  }
  // A baseline's clock is right, and its late wake-up is no excuse.
  return longer / std::max(1.0, least_of_fresh(baseline.fresh.claims_s, baseline.seen.claims_s));
}

}  // namespace

std::string remembered_answers(const FreshSamples& candidate, const FreshSamples& baseline) {
  const std::vector<double>& fresh_s = candidate.fresh.believed_s;
  if (fresh_s.size() < 2 || baseline.fresh.believed_s.empty() || candidate.seen.claims_s.empty() ||
      baseline.seen.claims_s.empty())
    return "";
  const double limit = fresh_s.size() < 4 ? 1.5 : 1.25;
  const double mine = least_of_fresh(fresh_s, candidate.seen.claims_s);
  const double theirs = least_of_fresh(baseline.fresh.believed_s, baseline.seen.claims_s);
  const double seen = quantile(candidate.seen.claims_s, 0.75);
  const double fresh = *std::min_element(fresh_s.begin(), fresh_s.end());
  // When ranks wait for cores, some samples take several times as long on any contents. With few
  // samples, a candidate could prolong one on purpose.
  constexpr size_t kMany = 8;
  for (const double other : candidate.seen.believed_s)
    if (candidate.seen.believed_s.size() >= kMany && fresh <= other) return "";
  if (mine <= limit * std::max(1.0, theirs) || fresh - seen < kResolution) return "";
  return "calls with repeated inputs take " + human_duration(seen) +
         ", the same number with new inputs at least " + human_duration(fresh) +
         "; the baseline takes equally long for both. The candidate remembers answers";
}

std::string early_work(const LateSamples& candidate, const LateSamples& baseline) {
  constexpr double kShort = 2.0 / 3;
  const auto all_short = [&](const LateSamples& s) {
    return !s.late_s.empty() && !s.usual_s.empty() &&
           *std::max_element(s.late_s.begin(), s.late_s.end()) < kShort * quantile(s.usual_s, 0.1);
  };
  if (!all_short(candidate) || all_short(baseline)) return "";
  return "calls after a pause take " + human_duration(quantile(candidate.late_s, 0.5)) +
         ", others " + human_duration(quantile(candidate.usual_s, 0.5)) +
         "; the baseline takes equally long for both. Work begins before the clock does";
}

double ahead_s(const AloneSamples& candidate, const AloneSamples& baseline, double allowed_s) {
  if (candidate.alone_s.empty() || baseline.alone_s.empty()) return 0;
  const auto longer_s = [](const AloneSamples& s) { return quantile(s.alone_s, 0.5) - s.among_s; };
  return std::max(0.0, longer_s(candidate) - std::max(0.0, longer_s(baseline)) - allowed_s);
}

std::string penalise_work_ahead(Ratio& ratio, const AloneSamples& candidate,
                                const AloneSamples& baseline, double allowed_s) {
  const double ahead = ahead_s(candidate, baseline, allowed_s);
  if (ratio.speed != Speed::faster || ahead <= 0 || candidate.among_s <= 0) return "";
  const double factor = 1 + ahead / candidate.among_s;
  const double low = ratio.low / factor, high = ratio.high / factor;
  if (speed_of(low, high, RaceOptions().band) == Speed::faster && factor < kLittle) return "";
  ratio.low = std::min(ratio.low, low);
  ratio.speed = speed_of(ratio.low, ratio.high, RaceOptions().band);
  return "own call " + human_duration(candidate.among_s) + "; a call alone in its sample costs " +
         human_duration(ahead) + " more than the baseline's. Calls do work for later calls";
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

void penalise_faster(Ratio& ratio) {
  if (ratio.speed != Speed::faster) return;
  ratio.low = std::min(ratio.low, 1.0);
  ratio.speed = speed_of(ratio.low, ratio.high, RaceOptions().band);
}

bool forgive_slower(Ratio& ratio, const Ratio& raced) {
  if (ratio.speed != Speed::slower || raced.speed == Speed::slower) return false;
  ratio.high = std::max(ratio.high, raced.high);
  ratio.speed = speed_of(ratio.low, ratio.high, RaceOptions().band);
  return true;
}

bool contradicts(const Ratio& cold, const Ratio& usual) {
  return cold.blocks >= kConfident && cold.high < usual.low;
}

std::string penalise_cold(Ratio& ratio, const ColdRaces& cold) {
  const bool below = contradicts(cold.worst, ratio);
  if (below && !cold.busy && cold.again && contradicts(*cold.again, ratio)) {
    ratio = cold.again->value > cold.worst.value ? *cold.again : cold.worst;
    return "measured with cold memory in both processes";
  }
  // A speedup must also hold with cold memory.
  const bool uncertain = ratio.speed == Speed::faster && cold.worst.low < 1;
  if (ratio.speed == Speed::slower || (!below && !uncertain)) return "";
  ratio.low = std::min(ratio.low, cold.worst.low);
  ratio.speed = speed_of(ratio.low, ratio.high, RaceOptions().band);
  return std::string("with cold memory in both processes the speedup is not certain") +
         (cold.busy ? "; other programs used the cores" : "");
}

void penalise_slowed_device(Ratio& ratio) {
  if (ratio.speed == Speed::slower) return;
  const double wide = 2 * RaceOptions().band;
  ratio.low = std::min(ratio.low, 1 - wide);
  ratio.high = std::max(ratio.high, 1 + wide);
  ratio.speed = Speed::unknown;
}

// Measured: two standard deviations of the mean over five ops, between nine sets of two processes.
bool penalise_one_set(Ratio& ratio, double call_s) {
  constexpr double kShare = 0.02, kShort = 50e-6;
  if (call_s > kShort) return false;
  const Speed before = ratio.speed;
  ratio.low *= 1 - kShare;
  ratio.high *= 1 + kShare;
  ratio.speed = speed_of(ratio.low, ratio.high, RaceOptions().band);
  return ratio.speed != before;
}

namespace {

// Ratio by the controller's clock. Each side's first sample comes before the race; then each block
// has two per side.
Ratio ratio_by_controller(const ClockSamples& candidate, const ClockSamples& baseline) {
  const double messages = messages_s(baseline);
  const auto log_of = [&](const ClockSamples& s, size_t i) {
    return std::log(std::max(s.claims_s[i], s.walls_s[i] - messages) / s.calls);
  };
  std::vector<double> logs;
  const size_t count = std::min(candidate.claims_s.size(), baseline.claims_s.size());
  for (size_t i = 1; i + 1 < count; i += 2)
    logs.push_back((log_of(baseline, i) + log_of(baseline, i + 1) - log_of(candidate, i) -
                    log_of(candidate, i + 1)) /
                   2);
  return ratio_of(logs, RaceOptions().band);
}

}  // namespace

ExtraTime extra_of_fresh(const FreshSamples& candidate, const FreshSamples& baseline) {
  const double longer = std::max(1.0, longer_on_fresh(candidate, baseline));
  if (longer <= 1) return {};
  return {.factor = longer,
          .what = std::to_string(std::lround(100 * (longer - 1))) + " % for new inputs"};
}

ExtraTime extra_of_late(const LateSamples& candidate, const LateSamples& baseline) {
  const double early = quantile(candidate.early_s, 0.5) - quantile(baseline.early_s, 0.5);
  if (early <= 0) return {};
  return {.seconds = early,
          .what = human_duration(early) + " of work by its threads before a late call"};
}

ExtraTime extra_of_cold(const ColdSamples& candidate, const ColdSamples& baseline) {
  const auto& longer = candidate.longer_s;
  if (longer.empty()) return {};
  const double seconds = *std::min_element(longer.begin(), longer.end()) -
                         std::max(0.0, quantile(baseline.longer_s, 0.5));
  if (seconds <= 0) return {};
  return {.seconds = seconds, .what = human_duration(seconds) + " cache penalty"};
}

std::string take_penalty_off(Ratio& ratio, const ClockSamples& candidate,
                             const ClockSamples& baseline, const std::vector<ExtraTime>& extras,
                             double calls_s) {
  if (ratio.speed != Speed::faster || calls_s <= 0) return "";
  const double unseen = unseen_s(candidate, baseline);
  double extra_s = 0, longer = 1;
  std::vector<std::string> parts;
  for (const ExtraTime& extra : extras) {
    extra_s += extra.seconds;
    longer *= extra.factor;
    if (!extra.what.empty()) parts.push_back(extra.what);
  }
  const auto divided = [](Ratio r, double factor) {
    for (double* value : {&r.value, &r.low, &r.high}) *value /= factor;
    r.speed = speed_of(r.low, r.high, RaceOptions().band);
    return r;
  };
  Ratio penalised = divided(ratio, (1 + (unseen + extra_s) / calls_s) * longer);
  const Ratio by_controller =
      divided(ratio_by_controller(candidate, baseline), (1 + extra_s / calls_s) * longer);
  const bool contradicts = by_controller.blocks > 1 && by_controller.high < penalised.low;
  if (contradicts) penalised = by_controller;
  if (penalised.speed == ratio.speed && ratio.value < kLittle * penalised.value) return "";
  ratio = penalised;
  if (contradicts)
    parts.insert(parts.begin(), "time that only the host's clock counts, in some samples");
  else if (unseen > 0)
    parts.insert(parts.begin(), human_duration(unseen) + " counted by the host's clock alone");
  return "a sample by its own clock takes " + human_duration(calls_s) + "; added are " +
         join(parts, ", ");
}

std::string penalise_unsteady_clock(Ratio& ratio, const ClockSamples& candidate,
                                    const ClockSamples& baseline, double calls_s) {
  if (ratio.speed != Speed::faster || calls_s <= 0 || candidate.claims_s.empty() ||
      baseline.claims_s.empty())
    return "";
  const ClockDifference mine = difference_of(candidate), theirs = difference_of(baseline);
  const double seen = mine.usual_s - theirs.usual_s;
  const double most = std::max(0.0, seen + kSure * std::hypot(mine.error_s, theirs.error_s));
  const double more = most - std::max(0.0, seen);
  const double low = ratio.low / (1 + more / calls_s);
  if (speed_of(low, ratio.high, RaceOptions().band) == Speed::faster) return "";
  ratio.low = std::min(ratio.low, low);
  ratio.speed = speed_of(ratio.low, ratio.high, RaceOptions().band);
  return "the host's clock cannot confirm it: " + human_duration(calls_s) +
         " of a sample by its own clock may be " + human_duration(calls_s + most);
}

Ratio race_while_faster(Contender& candidate, Contender& baseline, const RaceOptions& options) {
  Contender* const contenders[] = {&baseline, &candidate};
  Ratio least = race(contenders, options).ratio(1, 0);
  for (int races = 1; races < kRacesMost && least.low >= 1; ++races) {
    const Ratio again = race(contenders, options).ratio(1, 0);
    if (again.low < least.low) least = again;
  }
  return least;
}

}  // namespace fk
