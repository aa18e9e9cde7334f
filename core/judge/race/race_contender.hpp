// SPDX-License-Identifier: Apache-2.0
// One side in the timed part of a case run. Each call of its samples is compared.
#pragma once
#include <optional>
#include <vector>

#include "core/judge/case_run.hpp"
#include "core/judge/race/timing_penalty.hpp"

namespace fk {

// The candidate's answer was wrong, or its process ended. The row says so.
struct RaceEnded {};

class RaceContender final : public Contender {
 public:
  using Call = CandidateClient::Call;
  using Of = CaseRun::Of;
  // Makes `count` calls in each sample. Samples of a device that was slowed down are dropped:
  // `throttling` decides. All references outlive it.
  RaceContender(CaseRun& case_run, CandidateClient& client, Throttling& throttling, int count,
                SampleOptions options = {.flush = true})
      : case_run_(case_run), client_(client), throttling_(throttling), options_(options) {
    begin(count);
  }

  // Times calls on ordinary contents only: models have no inputs that are zero or equal everywhere.
  // Other families must be answered rightly in the race too, in samples that do not count.
  std::optional<double> sample() override;
  double waited_s() const override { return waited_s_; }
  void forget() override;

  // Calls on contents for any time.
  Call one(int count, Of of = Of::ordinary) { return one(count, options_, of); }
  Call one(int count, const SampleOptions& options, Of of = Of::ordinary);
  Call one(int first, const std::vector<int>& contents) { return one(first, contents, options_); }
  Call one(int first, const std::vector<int>& contents, const SampleOptions& options);

  // Starts a race with `count` calls per sample, and forgets earlier samples.
  void begin(int count);
  // Core for the next calls. Cores differ in speed for a while, because others use shared parts. So
  // both sides call on the same core, and on all cores in turn.
  void place(int core) { options_.core = core; }
  const SampleOptions& options() const { return options_; }
  CandidateClient& client() { return client_; }
  int calls() const { return count_; }
  bool captured() const { return captured_; }
  bool host_bound() const { return !clocks_.claims_s.empty() && in_time_ == 0; }
  bool had_to_wait() const { return cores_are_busy(clocks_, waits_s_); }
  const ClockSamples& clocks() const { return clocks_; }
  // Median seconds of all calls of a sample, as the worker claims.
  double usual_s() const { return quantile(clocks_.claims_s, 0.5); }
  double plan_s() const { return client_.plan_s; }
  void fill(SideTime& row) const;
  // Seconds of one call by the controller's clock, with `beside_s` taken off for messages.
  double wall_s(double beside_s) const;
  double beside_s() const;

 private:
  bool is_candidate() const { return &client_ == &case_run_.candidate(); }
  // Number of calls in a sample: `most`, or with several ranks a random number from half of it on.
  int calls_of_ranks(int most);

  CaseRun& case_run_;
  CandidateClient& client_;
  Throttling& throttling_;
  SampleOptions options_;
  int count_ = 1;
  ClockSamples clocks_;
  std::vector<double> waits_s_;  // for a core, by sample
  double waited_s_ = 0;          // for a core, per call of the last sample
  bool captured_ = false;
  int in_time_ = 0;  // samples in which no device waited for its host
  std::optional<LaunchFacts> facts_;
};

}  // namespace fk
