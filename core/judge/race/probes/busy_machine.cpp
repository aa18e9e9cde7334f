// SPDX-License-Identifier: Apache-2.0
// Names the reason for an unclear result on a CPU: other programs used its cores. The penalties of
// other probes make nobody slower then.
#include "core/judge/race/case_race.hpp"

namespace fk {

namespace {

class BusyMachine final : public RaceProbe {
 public:
  ProbeFinding penalise(const CaseRace& race, TimingRow& row,
                        const std::string& why) const override {
    const bool waited = race.candidate().had_to_wait() || race.baseline().had_to_wait();
    if (!race.on_cpu() || !waited) return {};
    if (forgive_slower(row.ratio, race.result().ratio(1, 0)))
      return {why + ", while other programs used the cores", kIdle};
    if (row.ratio.speed != Speed::unknown || !why.empty()) return {};
    return {"other programs used the cores during the timing", kIdle};
  }
};

FK_RACE_PROBE(busy_machine, BusyMachine, {.measures = 140, .concludes = 140});

}  // namespace

}  // namespace fk
