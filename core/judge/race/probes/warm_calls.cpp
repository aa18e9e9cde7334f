// SPDX-License-Identifier: Apache-2.0
// Calls on sets of the calls before, as many as fit into a core's caches. Contents are new and
// outputs poisoned, so the work must be done. Weights, packed memory, code and, in the last cache,
// dealt contents are warm. Times are believed_s(), because a candidate can tell these calls from
// others. They have no effect on the verdict.
#include <algorithm>

#include "core/judge/race/case_race.hpp"

namespace fk {

namespace {

constexpr int kWarmRounds = 3;
constexpr double kBytesOfCore = 1 << 20;

class WarmCalls final : public RaceProbe {
 public:
  void fill(CaseRace& race, TimingRow& row) override {
    CaseRun& case_run = race.case_run();
    RaceContender &mine = race.candidate(), &theirs = race.baseline();
    const int some = std::clamp(
        static_cast<int>(kBytesOfCore / std::max(case_run.facts().bytes, 1.0)), 1, mine.calls());
    const int dealt = race.on_cpu() ? some : 2, calls = race.on_cpu() ? some : 1;
    const double beside = messages_s(theirs.clocks());
    for (RaceContender* side : {&mine, &theirs}) {
      side->place(0);
      SampleOptions warm = side->options();
      warm.way = SampleOptions::Way::warm;
      warm.flush = false;
      const int first = case_run.some_first();
      std::vector<double> warm_s;
      for (int round = 0; round <= kWarmRounds; ++round) {
        const auto contents = case_run.some_contents(first, dealt, CaseRun::Of::ordinary);
        const auto call = side->one(first, contents, warm);
        const double all_s = race.on_cpu() ? call.believed_s(calls, beside) : call.own_s;
        if (round > 0) warm_s.push_back(all_s / calls);
      }
      (side == &mine ? row.candidate : row.baseline).warm_s = quantile(warm_s, 0.5);
    }
  }
};

FK_RACE_PROBE(warm_calls, WarmCalls, {.measures = 70, .concludes = 70});

}  // namespace

}  // namespace fk
