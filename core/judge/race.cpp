// SPDX-License-Identifier: Apache-2.0
// The timed part of a case run: candidate and baseline take turns, and every call is compared.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/check/plugin_set.hpp"
#include "core/judge/race_contender.hpp"
#include "core/judge/sample_calls.hpp"

namespace fk {

namespace {

constexpr double kSecondLookSeconds = 0.5;  // a second race has at least this time
// Calls alone in their sample may take this much longer: a device loads code at its first call.
constexpr double kMoreCodeOnDevice = 1e-6;
// A second race's samples are longer by their time for each kWakeShort of wake-up, up to so often.
constexpr double kWakeShort = 20e-6, kBatchesMost = 8;
constexpr int kWakeSamples = 9;  // requests that measure the wake-up time
// Calls of a device in a first sample, which decides the numbers of calls; corrections of these.
constexpr int kCallsOfALook = 8, kCountsAgain = 2;
constexpr int kRedoneMost = 200;  // blocks in which a GPU was slowed down
// When ranks share cores or GPUs, times are the scheduler's. This number of blocks gives an
// estimate, and includes calls on contents of all families.
constexpr int kBlocksInTurns = 4;

int cores() { return static_cast<int>(std::thread::hardware_concurrency()); }

}  // namespace

void CaseRun::race(CandidateClient& baseline) {
  flush_ = true;
  watch_ = GpuTelemetry::of(request_.device);
  ordinary_.assign(static_cast<size_t>(versions_), {});  // contents of ordinary inputs, by version
  for (int i = 0; i < seen_; ++i)
    if (families_[static_cast<size_t>(i)] == "ordinary")
      ordinary_[static_cast<size_t>(i % versions_)].push_back(i);
  try {
    std::string evidence;
    // Apparent cheating needs a second race: a busy machine does odd things once.
    for (int half = 0; half < 2; ++half) {
      renew_contents();
      RaceContender mine(*this, candidate_, 1), theirs(*this, baseline, 1);
      // The second race has longer samples. So the wake-up time, which is taken on trust, is a
      // smaller share.
      const double wake = half == 0 ? 0 : wake_s(candidate_) - wake_s(baseline);
      const double batch = kBatchSeconds * std::clamp(1 + wake / kWakeShort, 1.0, kBatchesMost);
      set_calls(mine, theirs, batch);
      RaceOptions options;
      options.seconds = half == 0 ? seconds_ : std::max(seconds_, kSecondLookSeconds);
      options.redo_max = kRedoneMost;
      if (request_.ranks > 1 && !why_not_compared().empty())
        options.blocks_min = options.blocks_max = kBlocksInTurns;
      throttling_ = Throttling(watch_.get());
      Contender* const contenders[] = {&theirs, &mine};
      RaceResult result = fk::race(contenders, options);
      bool counted = counts_are_good(mine, theirs, result);
      for (int again = 0; again < kCountsAgain && !counted; ++again) {
        count_again(mine, theirs, batch, result);
        result = fk::race(contenders, options);
        counted = counts_are_good(mine, theirs, result);
      }
      fresh_rounds(mine, theirs);
      // A candidate that is slower by its own clock gains nothing by hidden work. Without this
      // rule, a process of many threads, which wakes up late, would look like cheating. Times that
      // are not compared gain nothing either.
      const bool gains = result.ratio(1, 0).speed != Speed::slower && why_not_compared().empty();
      if (gains) late_rounds(mine, theirs);
      if (gains && result.ratio(1, 0).speed == Speed::faster) alone_rounds(mine, theirs);
      // A device's own flush leaves nothing in the cache.
      std::optional<Ratio> cold;
      if (gains && request_.device == "cpu") {
        cold_rounds(mine, theirs);
        cold = cold_ratio(baseline, mine.calls());
      }
      evidence = gains ? clock_disagreement(mine.clocks(), theirs.clocks(), wake) : "";
      if (gains && evidence.empty()) evidence = remembered_answers(mine.fresh, theirs.fresh);
      if (gains && evidence.empty()) evidence = early_work(mine.late, theirs.late);
      if (!evidence.empty() && half == 0) continue;
      warm_rounds(mine, theirs);
      conclude_race(mine, theirs, result, cold, evidence);
      if (!counted && evidence.empty()) penalise_counts();
      eager_row(baseline, mine, theirs);
      if (evidence.empty()) break;
    }
  } catch (const RaceEnded&) {
    // The row has the reason.
  } catch (const BaselineFailed&) {
    flush_ = all_cold_ = false;
    throw;
  }
  fill_families();
}

double CaseRun::copy_s(int calls) {
  if (request_.ranks > 1) return 0;
  return room_.ask(CaseCopy{case_run_->id, calls, request_.threads});
}

double CaseRun::wake_s(CandidateClient& client) {
  std::vector<double> all;
  RankGroup& runners = client.runners();
  for (int i = 0; i < kWakeSamples; ++i) {
    runners.freeze();
    room_.ask(CaseDeal{.case_run = case_run_->id, .flush = true});
    const double since = now_seconds();
    runners.thaw();
    if (const auto call = client.run(case_run_->id, 0, 0, since)) all.push_back(call->wall_s);
    if (runners.failed()) return 0;  // the next sample has the reason
  }
  runners.freeze();
  return quantile(all, 0.5);
}

// Ranks that knew the last call of a sample could exchange once for all of its calls.
int CaseRun::calls_of_ranks(int most) {
  if (request_.ranks == 1) return most;
  return static_cast<int>(random_.integer((most + 1) / 2, most + 1));
}

bool CaseRun::samples_as_long() const { return request_.device != "cpu" && request_.ranks == 1; }

// Decides the numbers of calls in a sample. One set of buffers gets contents and no call, to detect
// work ahead.
void CaseRun::set_calls(RaceContender& mine, RaceContender& theirs, double seconds) {
  const int looks = request_.device == "cpu" ? 2 : 1;  // a device's own clock is never late
  // With few calls, launches are a larger share of a device's time.
  const int calls = samples_as_long() ? std::min(kCallsOfALook, calls_most_) : 1;
  const auto least = [&](RaceContender& turn) {
    double out = HUGE_VAL;
    for (int i = 0; i < looks; ++i) out = std::min(out, std::max(turn.one(calls).claim_s, 1e-8));
    return out;
  };
  const double mine_s = least(mine), theirs_s = least(theirs);
  const SampleCalls counts = samples_as_long()
                                 ? calls_as_long(mine_s, theirs_s, seconds, calls_most_)
                                 : calls_of_samples(mine_s, theirs_s, seconds, calls_most_);
  mine.begin(counts.candidate);
  theirs.begin(counts.baseline);
}

bool CaseRun::counts_are_good(const RaceContender& mine, const RaceContender& theirs,
                              const RaceResult& result) const {
  return !samples_as_long() || are_as_long({mine.calls(), theirs.calls()},
                                           result.timing(1).median_s, result.timing(0).median_s);
}

void CaseRun::count_again(RaceContender& mine, RaceContender& theirs, double seconds,
                          const RaceResult& result) {
  const SampleCalls counts =
      calls_as_long(result.timing(1).median_s, result.timing(0).median_s, seconds, calls_most_);
  mine.begin(counts.candidate);
  theirs.begin(counts.baseline);
}

// Call counts that do not converge make the timing inconclusive.
void CaseRun::penalise_counts() {
  if (row_.status != Status::faster) return;
  Ratio& ratio = row_.timings.back().ratio;
  penalise_faster(ratio);
  row_.status = status_of(ratio.speed);
  row_.why = "the number of calls per sample does not converge";
}

// Adds a row without captures. The race itself ran each side as a model would.
void CaseRun::eager_row(CandidateClient& baseline, const RaceContender& mine,
                        const RaceContender& theirs) {
  if (!mine.captured() && !theirs.captured()) return;
  RaceContender its(*this, candidate_, mine.calls(), Way::eager);
  RaceContender other(*this, baseline, theirs.calls(), Way::eager);
  RaceOptions options;
  options.blocks_min = options.blocks_max = 1;
  Contender* const contenders[] = {&other, &its};
  try {
    row_.timings.push_back(row_of(fk::race(contenders, options), its, other));
  } catch (const BaselineFailed&) {
  }  // the race is over
}

TimingRow CaseRun::row_of(const RaceResult& result, const RaceContender& mine,
                          const RaceContender& theirs) const {
  TimingRow row;
  row.mode = mine.captured() ? "graph" : "eager";
  row.candidate.cold = result.timing(1);
  row.baseline.cold = result.timing(0);
  row.ratio = result.ratio(1, 0);
  row.calls_per_sample = mine.calls();
  row.settled = result.settled();
  row.host_bound = mine.host_bound() || theirs.host_bound();
  row.floor_s = floor_s_;
  row.bytes = bytes_;
  row.flops = flops_;
  row.wire = wire_;
  row.candidate.roofline = roofline_s_ / row.candidate.cold.median_s;
  row.baseline.roofline = roofline_s_ / row.baseline.cold.median_s;
  mine.fill(row.candidate);
  theirs.fill(row.baseline);
  return row;
}

void CaseRun::conclude_race(const RaceContender& mine, const RaceContender& theirs,
                            const RaceResult& result, const std::optional<Ratio>& cold,
                            const std::string& evidence) {
  TimingRow row = row_of(result, mine, theirs);
  if (plan_) {
    row.candidate.plan_s = mine.plan_s();
    row.baseline.plan_s = theirs.plan_s();
  }
  const double beside = theirs.beside_s();
  row.candidate.clock_s = mine.wall_s(beside);
  row.baseline.clock_s = theirs.wall_s(beside);
  // The samples of the race may be warm. The ratio with cold memory counts if it is surely lower.
  const bool warm = cold && cold->blocks > 1 && cold->high < row.ratio.low;
  if (warm) row.ratio = *cold;
  // A speedup must also hold with cold memory.
  const bool unsure = !warm && cold && row.ratio.speed == Speed::faster && cold->low < 1;
  if (unsure) row.ratio.low = std::min(row.ratio.low, cold->low);
  if (unsure) row.ratio.speed = speed_of(row.ratio.low, row.ratio.high, RaceOptions().band);
  Ratio penalised = row.ratio;
  std::string penalty = take_penalty_off(penalised, mine.penalties(), theirs.penalties(),
                                         result.timing(1).median_s * mine.calls());
  if (request_.device == "cpu") {
    row.ratio = penalised;
  } else if (!penalty.empty()) {
    // GPU calls are short compared with the spread of wake-up times. So a penalty lowers the
    // interval and leaves the ratio.
    row.ratio.low = penalised.low;
    row.ratio.speed = speed_of(row.ratio.low, row.ratio.high, RaceOptions().band);
  }
  if (warm && penalty.empty()) penalty = "measured with cold memory in both processes";
  if (unsure && penalty.empty())
    penalty = "with cold memory in both processes the speedup is not certain";
  const double allowed = request_.device == "cpu" ? 0 : kMoreCodeOnDevice;
  const std::string ahead = penalise_work_ahead(row.ratio, mine.alone, theirs.alone, allowed);
  if (!ahead.empty()) penalty = ahead;
  if (request_.ranks > 1 && request_.device != "cpu" &&
      penalise_one_set(row.ratio, row.candidate.cold.median_s) && penalty.empty())
    penalty = "for calls this short, processes of ranks differ by up to 2 %";
  // Ranks are several processes, each of which may wake up late.
  if (request_.device == "cpu" && request_.ranks > 1) {
    const std::string unsteady = penalise_unsteady_clock(row.ratio, mine.clocks(), theirs.clocks(),
                                                         result.timing(1).median_s * mine.calls());
    if (!unsteady.empty()) penalty = unsteady;
  }
  const bool busy = request_.device == "cpu" && request_.ranks > 1 && theirs.had_to_wait() &&
                    row.ratio.speed == Speed::faster;
  if (busy) penalise_faster(row.ratio);
  // A baseline starved by the candidate does not count as beaten.
  const auto failed = std::find_if(row_.passed_over.begin(), row_.passed_over.end(),
                                   [](const auto& p) { return !starts_with(p.why, kItIsWrong); });
  const bool unbeaten = failed != row_.passed_over.end() && row.ratio.speed == Speed::faster;
  if (unbeaten) penalise_faster(row.ratio);
  if (unbeaten) penalty = "the baseline " + failed->name + " failed and might have been faster";
  const std::string slowed = throttling_.why();
  if (!slowed.empty()) penalise_slowed_device(row.ratio);
  const double copy = copy_s(mine.calls());
  for (SideTime* side : {&row.candidate, &row.baseline})
    if (copy > 0 && side->cold.median_s > 0) side->of_copy = copy / side->cold.median_s;
  if (watch_) row.clocks = watch_->seen();
  row_.status = status_of(row.ratio.speed);
  row_.why = !busy ? penalty : "the baseline's ranks waited for cores in use by other programs";
  if (!slowed.empty()) row_.why = slowed;
  if (request_.device == "cpu" && row_.status == Status::cannot_tell && row_.why.empty() &&
      (mine.had_to_wait() || theirs.had_to_wait())) {
    row_.why = "other programs used the cores during the timing";
    row_.next = "Judge it on an idle machine.";
  }
  row_.timings.push_back(row);
  if (!evidence.empty()) {
    row_.status = Status::cheating;
    row_.why = "the measured time does not include all of its work";
    row_.evidence = evidence;
  } else if (row.candidate.cold.median_s < floor_s_) {
    row_.status = Status::impossible;
    row_.why = human_duration(row.candidate.cold.median_s) + " a call; the device needs " +
               human_duration(floor_s_) + " for its bytes" + (wire_ > 0 ? ", its link" : "") +
               " and operations";
  } else if (const std::string why = why_not_compared(); !why.empty()) {
    row_.status = Status::correct;
    row_.why = "its time is not compared: " + why;
    row_.next = known_ ? "Judge it on a recording without --values, or use --routing."
                       : std::string("Judge it where every rank has a ") +
                             (request_.device == "cpu" ? "core" : "GPU") + " of its own.";
  } else if (is_oracle(row_.baseline)) {
    // The oracle is written to be right. A faster candidate has beaten no baseline.
    row_.status = Status::correct;
    row_.why = std::string("there is no baseline to race: ") +
               (row_.passed_over.empty() ? "only the oracle takes the case"
                                         : "every baseline except the oracle failed") +
               ", and the oracle is not built for speed";
    row_.next = "The share of the roofline shows the room for gains.";
  } else if (!slowed.empty() && row_.status == Status::cannot_tell) {
    row_.next = "Judge it when the device is cool and no other program uses it.";
  }
}

// The reason why times mean nothing: recorded inputs, or ranks that share cores or GPUs.
std::string CaseRun::why_not_compared() const {
  if (known_)
    return "all inputs of its calls are recorded, so the candidate could remember answers";
  if (request_.ranks == 1) return "";
  const std::string ranks = std::to_string(request_.ranks) + " ranks take turns on ";
  if (request_.device != "cpu") return own_devices_ ? "" : ranks + "fewer GPUs";
  return request_.ranks > cores() ? ranks + std::to_string(cores()) + " cores" : "";
}

}  // namespace fk
