// SPDX-License-Identifier: Apache-2.0
// Calls that are alone in their sample. All contents of a sample are there before its first call,
// so that call could read, prefetch or answer them. A call alone cannot gain by that.
#include "core/judge/race/case_race.hpp"

namespace fk {

namespace {

constexpr int kAloneOnCpu = 8, kAloneOnDevice = 3;  // a device's own clock needs fewer rounds
// Calls alone in their sample may take this much longer: a device loads code at its first call.
constexpr double kMoreCodeOnDevice = 1e-6;

class CallAlone final : public RaceProbe {
 public:
  void measure(CaseRace& race) override {
    RaceContender &mine = race.candidate(), &theirs = race.baseline();
    if (!race.gains() || race.result().ratio(1, 0).speed != Speed::faster || mine.calls() == 1)
      return;
    RaceContender* const turns[] = {&theirs, &mine, &mine, &theirs};
    const int rounds = race.on_cpu() ? kAloneOnCpu : kAloneOnDevice;
    for (int round = 0; round < rounds; ++round)
      for (RaceContender* side : turns) {
        side->place(round);
        (side == &mine ? candidate_ : baseline_).alone_s.push_back(side->one(1).claim_s);
      }
    candidate_.among_s = mine.usual_s() / mine.calls();
    baseline_.among_s = theirs.usual_s() / theirs.calls();
  }

  ProbeFinding penalise(const CaseRace& race, TimingRow& row, const std::string&) const override {
    const double allowed = race.on_cpu() ? 0 : kMoreCodeOnDevice;
    return {penalise_work_ahead(row.ratio, candidate_, baseline_, allowed), ""};
  }

 private:
  AloneSamples candidate_, baseline_;
};

FK_RACE_PROBE(call_alone, CallAlone, {.measures = 30, .concludes = 60});

}  // namespace

}  // namespace fk
