// SPDX-License-Identifier: Apache-2.0
#include "core/judge/race/race_contender.hpp"

#include <algorithm>

#include "core/base/text.hpp"

namespace fk {

namespace {

constexpr int kFamiliesEvery = 4;  // in samples
constexpr int kFamilyCalls = 8;    // most calls of such a sample on a CPU

}  // namespace

std::optional<double> RaceContender::sample() {
  const bool usual = options_.way == SampleOptions::Way::usual && !options_.all_cold;
  // Comes between the two samples of a block, so that both sides have equally many samples with
  // caches cold from the other's turn.
  const bool between = clocks_.claims_s.size() % kFamiliesEvery == 2;
  if (is_candidate() && between && usual) {
    const bool few = case_run_.on_cpu();  // a device has one graph per usual count
    one(calls_of_ranks(few ? std::min(count_, kFamilyCalls) : count_), Of::all);
  }
  place(static_cast<int>(clocks_.claims_s.size()));
  throttling_.begin();
  const int calls = calls_of_ranks(count_);
  const Call call = one(calls);
  clocks_.claims_s.push_back(call.claim_s * count_);
  clocks_.walls_s.push_back(call.wall_s + call.claim_s * (count_ - calls));
  waits_s_.push_back(call.waited_s);
  // The wait before the process's own clock, until its wake-up, is not in the claim.
  const double unclaimed_s = std::max(0.0, call.wall_s - call.claim_s * calls);
  waited_s_ = std::max(0.0, call.waited_s - unclaimed_s) / calls;
  captured_ = call.captured && options_.way != SampleOptions::Way::eager;
  in_time_ += !call.late;
  if (call.facts) facts_ = call.facts;
  if (!throttling_.end()) return std::nullopt;
  return call.claim_s;
}

void RaceContender::forget() {
  for (std::vector<double>* of : {&clocks_.claims_s, &clocks_.walls_s, &waits_s_})
    of->resize(of->size() - 2);
}

RaceContender::Call RaceContender::one(int count, const SampleOptions& options, Of of) {
  const int first = case_run_.some_first();
  return one(first, case_run_.some_contents(first, count, of), options);
}

RaceContender::Call RaceContender::one(int first, const std::vector<int>& contents,
                                       const SampleOptions& options) {
  case_run_.change_poison();
  std::vector<CaseRun::Look> looks;
  const auto call = case_run_.take(client_, first, contents, looks, options);
  const bool mine = is_candidate();
  if (!call && mine) blame(case_run_.row(), client_);
  if (!call && !mine) throw CaseRun::BaselineFailed{client_.why()};
  if (!call || (mine && !case_run_.accept(looks, true))) throw RaceEnded{};
  for (const CaseRun::Look& look : looks) {
    if (mine || look.ok) continue;
    // The baseline was right before, so this is not kItIsWrong.
    if (look.rule != "guard")
      throw CaseRun::BaselineFailed{"it is wrong in the race: " + look.text};
    // The baseline was right on each set before, and its addresses do not depend on contents. So
    // the candidate has damaged the guard.
    case_run_.blame_stray("around a tensor of a call that was not made: " + look.text);
    throw RaceEnded{};
  }
  return *call;
}

void RaceContender::begin(int count) {
  count_ = count;
  clocks_ = {};
  clocks_.calls = count;
  waits_s_.clear();
  in_time_ = 0;
}

// Ranks that knew the last call of a sample could exchange once for all of its calls.
int RaceContender::calls_of_ranks(int most) {
  if (case_run_.request().ranks == 1) return most;
  return static_cast<int>(case_run_.random((most + 1) / 2, most + 1));
}

void RaceContender::fill(SideTime& row) const {
  row.captured = captured_;
  if (!facts_) return;
  row.launches = facts_->launches;
  if (facts_->kernel.empty() && !facts_->registers) return;
  row.kernel = facts_->kernel;
  row.registers = facts_->registers;
  row.local_bytes = facts_->local_bytes;
  row.shared_bytes = facts_->shared_bytes;
  row.occupancy = facts_->occupancy;
}

double RaceContender::wall_s(double beside_s) const {
  return std::max(0.0, quantile(clocks_.walls_s, 0.5) - beside_s) / count_;
}

double RaceContender::beside_s() const {
  std::vector<double> all;
  for (size_t i = 0; i < clocks_.walls_s.size(); ++i)
    all.push_back(clocks_.walls_s[i] - clocks_.claims_s[i]);
  return quantile(all, 0.5);
}

}  // namespace fk
