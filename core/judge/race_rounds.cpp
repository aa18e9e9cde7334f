// SPDX-License-Identifier: Apache-2.0
// Rounds in addition to the race: calls on new contents, late calls, calls alone, and calls with
// warm or cold memory. timing_penalty.hpp draws conclusions from them.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/judge/race_contender.hpp"

namespace fk {

namespace {

constexpr int kFreshRounds = 4, kSeenOfRanks = 8, kLateRounds = 3, kColdRounds = 3,
              kAloneRounds = 8, kAloneOnDevice = 3, kWarmRounds = 3;
constexpr double kColdSeconds = 0.1;
// On a CPU longer than a tick, in which the kernel counts a process's work.
constexpr double kLateOnCpu = 5e-3, kLateOnDevice = 0.5e-3;

}  // namespace

// Calls on new ordinary contents, in turn with calls on seen ones.
void CaseRun::fresh_rounds(RaceContender& mine, RaceContender& theirs) {
  const int kept = static_cast<int>(families_.size()) - kept_;
  // Ranks wait for each other in microseconds, which needs many calls per round. When they wait for
  // cores, some samples take several times as long, which needs several rounds.
  const int rounds = std::min(request_.ranks > 1 ? kFreshRounds / 2 : kFreshRounds, kept);
  if (!rounds) return;
  const int count = std::clamp(kept / rounds, 1, std::min(sets_, mine.calls()));
  // A candidate that knows new contents may know what to claim, so the controller's clock counts.
  // Usual messages are taken off. These are few calls, and some samples on a device take far longer
  // to change from process to process; so a device uses the upper quartile.
  const double messages =
      request_.device == "cpu" ? least_messages_s(theirs.clocks()) : messages_s(theirs.clocks());
  const double unseen = unseen_s(mine.clocks(), theirs.clocks());
  for (int round = 0; round < rounds; ++round) {
    std::vector<int> contents;
    for (int i = 0; i < count; ++i) contents.push_back(kept_ + round * count + i);
    for (RaceContender* turn : {&mine, &theirs}) {
      const int first = versions_ == 1 ? some_first() : contents[0] % sets_;
      turn->place(round);
      const double beside = messages + (turn == &mine ? unseen : 0);
      const auto keep = [&](FreshSamples::Times& times, const CandidateClient::Call& call) {
        times.claims_s.push_back(call.own_s * count);
        times.believed_s.push_back(call.believed_s(count, beside));
      };
      const auto again = [&] {
        for (int i = 0; i < (request_.ranks > 1 ? kSeenOfRanks : 1); ++i)
          keep(turn->fresh.seen, turn->one(count));
      };
      // The caches are cold at the begin of a turn, so the order alternates.
      if (round % 2) again();
      keep(turn->fresh.fresh, turn->one(first, contents));
      if (round % 2 == 0) again();
    }
  }
  for (RaceContender* turn : {&mine, &theirs})
    turn->fresh.usual_s = quantile(turn->clocks().claims_s, 0.5) / turn->calls() * count;
}

// Work that begins with the contents and not with the call shows in a late call.
void CaseRun::late_rounds(RaceContender& mine, RaceContender& theirs) {
  // Long enough for a device to finish all calls.
  late_s_ = request_.device == "cpu"
                ? kLateOnCpu
                : std::max(kLateOnDevice, quantile(theirs.clocks().claims_s, 0.5));
  for (int round = 0; round < kLateRounds; ++round)
    for (RaceContender* turn : {&mine, &theirs}) {
      turn->place(round);
      const auto call = turn->one(turn->calls(), Way::late);
      turn->late.late_s.push_back(call.claim_s * turn->calls());
      turn->late.early_s.push_back(call.early_s);
    }
  for (RaceContender* turn : {&mine, &theirs}) turn->late.usual_s = turn->clocks().claims_s;
}

// All contents of a sample are there before its first call, so that call could read, prefetch or
// answer them. A call alone in its sample cannot gain by that. A device's own clock needs fewer
// rounds.
void CaseRun::alone_rounds(RaceContender& mine, RaceContender& theirs) {
  if (mine.calls() == 1) return;
  RaceContender* const turns[] = {&theirs, &mine, &mine, &theirs};
  const int rounds = request_.device == "cpu" ? kAloneRounds : kAloneOnDevice;
  for (int round = 0; round < rounds; ++round)
    for (RaceContender* turn : turns) {
      turn->place(round);
      turn->alone.alone_s.push_back(turn->one(1).claim_s);
    }
  for (RaceContender* turn : {&mine, &theirs})
    turn->alone.among_s = quantile(turn->clocks().claims_s, 0.5) / turn->calls();
}

// Calls on sets of the calls before, as many as fit into a core's caches. Contents are new and
// outputs poisoned, so the work must be done. Weights, packed memory, code and, in the last cache,
// dealt contents are warm. Times are believed_s(), because a candidate can tell these calls from
// others; they have no effect on the verdict.
void CaseRun::warm_rounds(RaceContender& mine, RaceContender& theirs) {
  constexpr double kOfCore = 1 << 20;
  const bool host = request_.device == "cpu";
  const int some = std::clamp(static_cast<int>(kOfCore / std::max(bytes_, 1.0)), 1, mine.calls());
  const int dealt = host ? some : 2, calls = host ? some : 1;
  const double beside = messages_s(theirs.clocks());
  flush_ = false;
  for (RaceContender* turn : {&mine, &theirs}) {
    turn->place(0);
    const int first = some_first();
    for (int round = 0; round <= kWarmRounds; ++round) {
      const auto call = turn->one(first, some_contents(first, dealt, Of::ordinary), Way::warm);
      const double all_s = host ? call.believed_s(calls, beside) : call.own_s;
      if (round > 0) turn->warm_s.push_back(all_s / calls);
    }
  }
  flush_ = true;
}

// A sample's flush removes tensors and packed memory from the caches, but not private copies of
// them. So the candidate's own process makes all of its memory cold; this is too slow for all
// samples. Code that is read once per sample is larger in a baseline's plugin, and would flatter a
// small candidate. So the baseline calls once after the flush. The candidate does not, because it
// could fetch copies.
Ratio CaseRun::cold_ratio(CandidateClient& baseline, int count) {
  RaceOptions options;
  options.seconds = std::max(kColdSeconds, seconds_ / 2);
  all_cold_ = true;
  RaceContender mine(*this, candidate_, count), theirs(*this, baseline, count);
  const Ratio least = race_while_faster(mine, theirs, options);
  all_cold_ = false;
  return least;
}

// As cold_ratio(), but the oracle flushes, which no candidate can prevent. Less precise, because
// code is cold too.
void CaseRun::cold_rounds(RaceContender& mine, RaceContender& theirs) {
  ClockSamples cold[2];
  std::vector<double> usual_s[2];
  RaceContender* const turns[] = {&mine, &theirs};
  for (int round = 0; round < kColdRounds; ++round) {
    for (size_t side = 0; side < 2; ++side) {
      turns[side]->place(round);
      const int count = turns[side]->calls();
      usual_s[side].push_back(turns[side]->one(count).own_s * count);
      const auto call = turns[side]->one(count, Way::cold);
      cold[side].claims_s.push_back(call.own_s * count);
      cold[side].walls_s.push_back(call.wall_s);
    }
  }
  // The code that reads messages is cold too.
  const double messages[] = {least_messages_s(cold[1]) + unseen_s(mine.clocks(), theirs.clocks()),
                             least_messages_s(cold[1])};
  for (size_t side = 0; side < 2; ++side)
    for (size_t i = 0; i < usual_s[side].size(); ++i)
      turns[side]->cold.longer_s.push_back(
          std::max(cold[side].claims_s[i], cold[side].walls_s[i] - messages[side]) -
          usual_s[side][i]);
}

}  // namespace fk
