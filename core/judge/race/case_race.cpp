// SPDX-License-Identifier: Apache-2.0
#include "core/judge/race/case_race.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/clock.hpp"
#include "core/base/text.hpp"
#include "core/check/plugin_set.hpp"
#include "core/judge/race/sample_calls.hpp"

namespace fk {

namespace {

constexpr double kSecondLookSeconds = 0.5;  // a second race has at least this time
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

CaseRace::CaseRace(CaseRun& case_run, CandidateClient& baseline, GpuTelemetry* telemetry,
                   bool second)
    : case_run_(case_run),
      telemetry_(telemetry),
      second_(second),
      throttling_(telemetry),
      mine_(case_run, case_run.candidate(), throttling_, 1),
      theirs_(case_run, baseline, throttling_, 1),
      probes_(race_probes()) {}

std::string CaseRace::measure() {
  case_run_.renew_contents();
  // A second race has longer samples. So the wake-up time, which is taken on trust, is a smaller
  // share.
  wake_s_ = second_ ? wake_of(mine_.client()) - wake_of(theirs_.client()) : 0;
  sample_s_ = kBatchSeconds * std::clamp(1 + wake_s_ / kWakeShort, 1.0, kBatchesMost);
  set_calls();
  RaceOptions options;
  options.seconds =
      second_ ? std::max(case_run_.seconds(), kSecondLookSeconds) : case_run_.seconds();
  options.redo_max = kRedoneMost;
  if (ranks() > 1 && !why_not_compared().empty())
    options.blocks_min = options.blocks_max = kBlocksInTurns;
  throttling_ = Throttling(telemetry_);
  Contender* const contenders[] = {&theirs_, &mine_};
  result_ = race(contenders, options);
  counted_ = are_counts_good();
  for (int again = 0; again < kCountsAgain && !counted_; ++again) {
    count_again();
    result_ = race(contenders, options);
    counted_ = are_counts_good();
  }
  for (auto& known : probes_) known.probe->measure(*this);
  std::sort(probes_.begin(), probes_.end(),
            [](const auto& a, const auto& b) { return a.order.concludes < b.order.concludes; });
  if (!gains()) return "";
  for (const auto& known : probes_)
    if (std::string evidence = known.probe->evidence(*this); !evidence.empty()) return evidence;
  return "";
}

bool CaseRace::gains() const {
  return result_.ratio(1, 0).speed != Speed::slower && why_not_compared().empty();
}

std::vector<ExtraTime> CaseRace::extras() const {
  std::vector<ExtraTime> out;
  for (const auto& known : probes_) out.push_back(known.probe->extra(*this));
  return out;
}

double CaseRace::wake_of(CandidateClient& client) {
  std::vector<double> all;
  RankGroup& runners = client.runners();
  for (int i = 0; i < kWakeSamples; ++i) {
    runners.freeze();
    case_run_.room().ask(CaseDeal{.case_run = case_run_.id(), .flush = true});
    const double since = now_seconds();
    runners.thaw();
    if (const auto call = client.run(case_run_.id(), 0, 0, since)) all.push_back(call->wall_s);
    if (runners.failed()) return 0;  // the next sample has the reason
  }
  runners.freeze();
  return quantile(all, 0.5);
}

// Samples of both sides take equally long, with different numbers of calls (sample_calls.hpp). The
// race may show that the numbers were wrong; count_again() corrects them.
bool CaseRace::samples_as_long() const { return !on_cpu() && ranks() == 1; }

// Decides the numbers of calls in a sample. One set of buffers gets contents and no call, to detect
// work ahead.
void CaseRace::set_calls() {
  const int most = case_run_.facts().calls_most;
  const int looks = on_cpu() ? 2 : 1;  // a device's own clock is never late
  // With few calls, launches are a larger share of a device's time.
  const int calls = samples_as_long() ? std::min(kCallsOfALook, most) : 1;
  const auto least = [&](RaceContender& side) {
    double out = HUGE_VAL;
    for (int i = 0; i < looks; ++i) out = std::min(out, std::max(side.one(calls).claim_s, 1e-8));
    return out;
  };
  const double mine_s = least(mine_), theirs_s = least(theirs_);
  const SampleCalls counts = samples_as_long()
                                 ? calls_as_long(mine_s, theirs_s, sample_s_, most)
                                 : calls_of_samples(mine_s, theirs_s, sample_s_, most);
  mine_.begin(counts.candidate);
  theirs_.begin(counts.baseline);
}

bool CaseRace::are_counts_good() const {
  return !samples_as_long() || are_as_long({mine_.calls(), theirs_.calls()},
                                           result_.timing(1).median_s, result_.timing(0).median_s);
}

void CaseRace::count_again() {
  const SampleCalls counts = calls_as_long(result_.timing(1).median_s, result_.timing(0).median_s,
                                           sample_s_, case_run_.facts().calls_most);
  mine_.begin(counts.candidate);
  theirs_.begin(counts.baseline);
}

// Adds a row without captures. The race itself ran each side as a model would.
void CaseRace::add_eager_row() {
  if (!mine_.captured() && !theirs_.captured()) return;
  const SampleOptions eager{.way = SampleOptions::Way::eager, .flush = true};
  RaceContender its(case_run_, mine_.client(), throttling_, mine_.calls(), eager);
  RaceContender other(case_run_, theirs_.client(), throttling_, theirs_.calls(), eager);
  RaceOptions options;
  options.blocks_min = options.blocks_max = 1;
  Contender* const contenders[] = {&other, &its};
  try {
    const RaceResult result = race(contenders, options);
    case_run_.row().timings.push_back(row_of(result, its, other));
  } catch (const CaseRun::BaselineFailed&) {
  }  // the race is over
}

TimingRow CaseRace::row_of(const RaceResult& result, const RaceContender& mine,
                           const RaceContender& theirs) const {
  const CaseFacts& facts = case_run_.facts();
  TimingRow row;
  row.mode = mine.captured() ? "graph" : "eager";
  row.candidate.cold = result.timing(1);
  row.baseline.cold = result.timing(0);
  row.ratio = result.ratio(1, 0);
  row.calls_per_sample = mine.calls();
  row.settled = result.settled();
  row.host_bound = mine.host_bound() || theirs.host_bound();
  row.floor_s = facts.floor_s;
  row.bytes = facts.bytes;
  row.flops = facts.flops;
  row.wire = facts.wire;
  row.candidate.roofline = facts.roofline_s / row.candidate.cold.median_s;
  row.baseline.roofline = facts.roofline_s / row.baseline.cold.median_s;
  mine.fill(row.candidate);
  theirs.fill(row.baseline);
  return row;
}

void CaseRace::conclude(const std::string& evidence) {
  TimingRow row = row_of(result_, mine_, theirs_);
  if (case_run_.facts().plan) {
    row.candidate.plan_s = mine_.plan_s();
    row.baseline.plan_s = theirs_.plan_s();
  }
  const double beside = theirs_.beside_s();
  row.candidate.clock_s = mine_.wall_s(beside);
  row.baseline.clock_s = theirs_.wall_s(beside);
  for (auto& known : probes_) known.probe->fill(*this, row);
  ProbeFinding found;
  for (const auto& known : probes_)
    if (ProbeFinding its = known.probe->penalise(*this, row, found.why); !its.why.empty())
      found = std::move(its);
  CaseVerdict& verdict = case_run_.row();
  verdict.status = status_of(row.ratio.speed);
  verdict.why = found.why;
  verdict.next = found.next;
  verdict.timings.push_back(row);
  if (!evidence.empty()) {
    verdict.status = Status::cheating;
    verdict.why = "the measured time does not include all of its work";
    verdict.evidence = evidence;
    verdict.next.clear();
  } else if (row.candidate.cold.median_s < row.floor_s) {
    verdict.status = Status::impossible;
    verdict.why = human_duration(row.candidate.cold.median_s) + " a call; the device needs " +
                  human_duration(row.floor_s) + " for its bytes" +
                  (row.wire > 0 ? ", its link" : "") + " and operations";
    verdict.next.clear();
  } else if (const std::string why = why_not_compared(); !why.empty()) {
    verdict.status = Status::correct;
    verdict.why = "its time is not compared: " + why;
    verdict.next = case_run_.facts().known
                       ? "Judge it on a recording without --values, or use --routing."
                       : std::string("Judge it where every rank has a ") +
                             (on_cpu() ? "core" : "GPU") + " of its own.";
  } else if (is_oracle(verdict.baseline)) {
    // The oracle is written to be right. A faster candidate has beaten no baseline.
    verdict.status = Status::correct;
    verdict.why = std::string("there is no baseline to race: ") +
                  (verdict.passed_over.empty() ? "only the oracle takes the case"
                                               : "every baseline except the oracle failed") +
                  ", and the oracle is not built for speed";
    verdict.next = on_cpu()
                       ? "A copy of the bytes has 100 % in `of copy`: the rest is room for gains."
                       : "The share of the roofline shows the room for gains.";
  }
  add_eager_row();
}

std::string CaseRace::why_not_compared() const {
  if (case_run_.facts().known)
    return "all inputs of its calls are recorded, so the candidate could remember answers";
  if (ranks() == 1) return "";
  const std::string count = std::to_string(ranks()) + " ranks take turns on ";
  if (!on_cpu()) return case_run_.facts().own_devices ? "" : count + "fewer GPUs";
  return ranks() > cores() ? count + std::to_string(cores()) + " cores" : "";
}

void race_case(CaseRun& case_run, CandidateClient& baseline) {
  const auto telemetry = GpuTelemetry::of(case_run.request().device);
  try {
    for (const bool second : {false, true}) {
      CaseRace race(case_run, baseline, telemetry.get(), second);
      const std::string evidence = race.measure();
      if (!evidence.empty() && !second) continue;
      race.conclude(evidence);
      break;
    }
  } catch (const RaceEnded&) {
    // The row has the reason.
  }
}

}  // namespace fk
