// SPDX-License-Identifier: Apache-2.0
// One side in the timed part of a case run. Each call of its samples is compared.
#pragma once
#include <optional>
#include <vector>

#include "core/base/text.hpp"
#include "core/judge/case_run.hpp"

namespace fk {

// The candidate's answer was wrong, or its process ended. The row says so.
struct RaceEnded {};

class CaseRun::RaceContender final : public Contender {
 public:
  RaceContender(CaseRun& case_run, CandidateClient& client, int count, Way way = Way::usual)
      : case_run_(case_run), client_(client), way_(way) {
    begin(count);
  }

  // Times calls on ordinary contents only: models have no inputs that are zero or equal everywhere.
  // Other families must be answered rightly in the race too, in samples that do not count.
  std::optional<double> sample() override {
    // Comes between the two samples of a block, so that both sides have equally many samples with
    // caches cold from the other's turn.
    const bool between = clocks_.claims_s.size() % kFamiliesEvery == 2;
    if (&client_ == &case_run_.candidate_ && between && !case_run_.all_cold_ &&
        way_ == Way::usual) {
      const bool few =
          case_run_.request_.device == "cpu";  // a device has one graph per usual count
      one(case_run_.calls_of_ranks(few ? std::min(count_, kFamilyCalls) : count_), Way::usual,
          Of::all);
    }
    place(static_cast<int>(clocks_.claims_s.size()));
    case_run_.throttling_.begin();
    const int calls = case_run_.calls_of_ranks(count_);
    const auto call = one(calls, way_);
    clocks_.claims_s.push_back(call.claim_s * count_);
    clocks_.walls_s.push_back(call.wall_s + call.claim_s * (count_ - calls));
    waits_s_.push_back(call.waited_s);
    // The wait before the process's own clock, until its wake-up, is not in the claim.
    const double unclaimed_s = std::max(0.0, call.wall_s - call.claim_s * calls);
    waited_s_ = std::max(0.0, call.waited_s - unclaimed_s) / calls;
    captured_ = call.captured && way_ != Way::eager;
    in_time_ += !call.late;
    if (call.facts) facts_ = call.facts;
    if (!case_run_.throttling_.end()) return std::nullopt;
    return call.claim_s;
  }

  double waited_s() const override { return waited_s_; }

  void forget() override {
    for (std::vector<double>* of : {&clocks_.claims_s, &clocks_.walls_s, &waits_s_})
      of->resize(of->size() - 2);
  }

  // Calls on contents for any time.
  CandidateClient::Call one(int count, Way way = Way::usual, Of of = Of::ordinary) {
    const int first = case_run_.some_first();
    return one(first, case_run_.some_contents(first, count, of), way);
  }
  CandidateClient::Call one(int first, const std::vector<int>& contents, Way way = Way::usual) {
    ++case_run_.poison_;
    std::vector<Look> looks;
    const auto call = case_run_.take(client_, first, contents, looks, way, core_);
    const bool mine = &client_ == &case_run_.candidate_;
    if (!call && mine) blame(case_run_.row_, client_);
    if (!call && !mine) throw BaselineFailed{client_.why()};
    if (!call || (mine && !case_run_.accept(looks, true))) throw RaceEnded{};
    for (const Look& look : looks) {
      if (mine || look.ok) continue;
      // The baseline was right before, so this is not kItIsWrong.
      if (look.rule != "guard") throw BaselineFailed{"it is wrong in the race: " + look.text};
      // The baseline was right on each set before, and its addresses do not depend on contents. So
      // the candidate has damaged the guard.
      case_run_.blame_stray("around a tensor of a call that was not made: " + look.text);
      throw RaceEnded{};
    }
    return *call;
  }

  // Starts a race with `count` calls per sample, and forgets earlier samples.
  void begin(int count) {
    count_ = count;
    clocks_ = {};
    clocks_.calls = count;
    waits_s_.clear();
    in_time_ = 0;
  }
  // Core for the next calls. Cores differ in speed for a while, because others use shared parts. So
  // both sides call on the same core, and on all cores in turn.
  void place(int core) { core_ = core; }
  int calls() const { return count_; }
  bool captured() const { return captured_; }
  bool host_bound() const { return !clocks_.claims_s.empty() && in_time_ == 0; }
  double plan_s() const { return client_.plan_s; }
  void fill(SideTime& row) const {
    row.captured = captured_;
    if (!warm_s.empty()) row.warm_s = quantile(warm_s, 0.5);
    if (!facts_) return;
    row.launches = facts_->launches;
    if (facts_->kernel.empty() && !facts_->registers) return;
    row.kernel = facts_->kernel;
    row.registers = facts_->registers;
    row.local_bytes = facts_->local_bytes;
    row.shared_bytes = facts_->shared_bytes;
    row.occupancy = facts_->occupancy;
  }
  const ClockSamples& clocks() const { return clocks_; }
  bool had_to_wait() const { return cores_are_busy(clocks_, waits_s_); }
  TimingPenalties penalties() const { return {clocks_, fresh, late, cold}; }
  FreshSamples fresh;
  LateSamples late;
  ColdSamples cold;
  AloneSamples alone;
  std::vector<double> warm_s;
  // Seconds of one call by the controller's clock, with `beside_s` taken off for messages.
  double wall_s(double beside_s) const {
    return std::max(0.0, quantile(clocks_.walls_s, 0.5) - beside_s) / count_;
  }
  double beside_s() const {
    std::vector<double> all;
    for (size_t i = 0; i < clocks_.walls_s.size(); ++i)
      all.push_back(clocks_.walls_s[i] - clocks_.claims_s[i]);
    return quantile(all, 0.5);
  }

 private:
  // in samples; in calls of such a sample
  static constexpr int kFamiliesEvery = 4, kFamilyCalls = 8;
  CaseRun& case_run_;
  CandidateClient& client_;
  const Way way_;
  int count_ = 1, core_ = 0;
  ClockSamples clocks_;
  std::vector<double> waits_s_;  // for a core, by sample
  double waited_s_ = 0;          // for a core, per call of the last sample
  bool captured_ = false;
  int in_time_ = 0;  // samples in which no device waited for its host
  std::optional<LaunchFacts> facts_;
};

}  // namespace fk
