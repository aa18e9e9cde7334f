// SPDX-License-Identifier: Apache-2.0
// The timed part of a case run: candidate and baseline take turns, and every call is compared.
// Then probes (race_probe.hpp) measure what a candidate could gain unfairly. The row of the case
// gets the result.
#pragma once
#include <optional>
#include <vector>

#include "core/judge/race/race_contender.hpp"
#include "core/judge/race/race_probe.hpp"

namespace fk {

// One race with its probes. A second race follows apparent cheating, because a busy machine does
// odd things once.
class CaseRace {
 public:
  // `telemetry` outlives it; null: the device has none.
  CaseRace(CaseRun& case_run, CandidateClient& baseline, GpuTelemetry* telemetry, bool second);
  CaseRace(const CaseRace&) = delete;

  // Races, and lets probes measure. Returns evidence of cheating; empty: none.
  std::string measure();
  // Fills the row of the case.
  void conclude(const std::string& evidence);

  // For probes.
  CaseRun& case_run() { return case_run_; }
  const CaseRun& case_run() const { return case_run_; }
  RaceContender& candidate() { return mine_; }
  RaceContender& baseline() { return theirs_; }
  const RaceContender& candidate() const { return mine_; }
  const RaceContender& baseline() const { return theirs_; }
  const RaceResult& result() const { return result_; }
  GpuTelemetry* telemetry() const { return telemetry_; }
  Throttling& throttling() { return throttling_; }
  const Throttling& throttling() const { return throttling_; }
  bool on_cpu() const { return case_run_.on_cpu(); }
  int ranks() const { return case_run_.request().ranks; }
  // Extra seconds of the candidate's process for a request without calls.
  double wake_s() const { return wake_s_; }
  // False: the numbers of calls do not converge.
  bool counts_are_good() const { return counted_; }
  // A candidate that is slower by its own clock gains nothing by hidden work. Without this rule, a
  // process of many threads, which wakes up late, would look like cheating. Times that are not
  // compared gain nothing either.
  bool gains() const;
  // Time that the candidate did not claim, as all probes have measured it.
  std::vector<ExtraTime> extras() const;
  // The reason why times mean nothing: recorded inputs, or ranks that share cores or GPUs. Empty:
  // they are compared.
  std::string why_not_compared() const;

 private:
  double wake_of(CandidateClient& client);
  bool samples_as_long() const;
  void set_calls();
  bool are_counts_good() const;
  void count_again();
  TimingRow row_of(const RaceResult& result, const RaceContender& mine,
                   const RaceContender& theirs) const;
  void add_eager_row();

  CaseRun& case_run_;
  GpuTelemetry* telemetry_;
  bool second_;
  Throttling throttling_;
  RaceContender mine_, theirs_;
  std::vector<RegisteredProbe> probes_;
  RaceResult result_;
  double wake_s_ = 0;
  double sample_s_ = 0;  // seconds of a sample, about
  bool counted_ = true;
};

// Races until there is no evidence of cheating, twice at most. A fault of the candidate ends it:
// the row has the reason. BaselineFailed is thrown on.
void race_case(CaseRun& case_run, CandidateClient& baseline);

}  // namespace fk
