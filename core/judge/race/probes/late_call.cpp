// SPDX-License-Identifier: Apache-2.0
// Calls after a pause: work that begins with the contents, and not with the call, shows in them.
#include <algorithm>

#include "core/judge/race/case_race.hpp"

namespace fk {

namespace {

constexpr int kLateRounds = 3;
// On a CPU longer than a tick, in which the kernel counts a process's work.
constexpr double kLateOnCpu = 5e-3, kLateOnDevice = 0.5e-3;

class LateCall final : public RaceProbe {
 public:
  void measure(CaseRace& race) override {
    if (!race.gains()) return;
    RaceContender &mine = race.candidate(), &theirs = race.baseline();
    // Long enough for a device to finish all calls.
    const double pause = race.on_cpu() ? kLateOnCpu : std::max(kLateOnDevice, theirs.usual_s());
    for (int round = 0; round < kLateRounds; ++round)
      for (RaceContender* side : {&mine, &theirs}) {
        LateSamples& samples = side == &mine ? candidate_ : baseline_;
        side->place(round);
        SampleOptions late = side->options();
        late.way = SampleOptions::Way::late;
        late.pause_s = pause;
        const auto call = side->one(side->calls(), late);
        samples.late_s.push_back(call.claim_s * side->calls());
        samples.early_s.push_back(call.early_s);
      }
    candidate_.usual_s = mine.clocks().claims_s;
    baseline_.usual_s = theirs.clocks().claims_s;
  }

  std::string evidence(const CaseRace&) const override { return early_work(candidate_, baseline_); }
  ExtraTime extra(const CaseRace&) const override { return extra_of_late(candidate_, baseline_); }

 private:
  LateSamples candidate_, baseline_;
};

FK_RACE_PROBE(late_call, LateCall, {.measures = 20, .concludes = 40});

}  // namespace

}  // namespace fk
