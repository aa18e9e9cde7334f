// SPDX-License-Identifier: Apache-2.0
// The controller's clock cannot confirm claims of ranks where the time of messages varies. Ranks are
// several processes, and each may wake up late.
#include "core/judge/race/case_race.hpp"

namespace fk {

namespace {

class UnsteadyClock final : public RaceProbe {
 public:
  ProbeFinding penalise(const CaseRace& race, TimingRow& row, const std::string&) const override {
    if (!race.on_cpu() || race.ranks() == 1) return {};
    const RaceContender& mine = race.candidate();
    return {penalise_unsteady_clock(row.ratio, mine.clocks(), race.baseline().clocks(),
                                    race.result().timing(1).median_s * mine.calls()),
            ""};
  }
};

FK_RACE_PROBE(unsteady_clock, UnsteadyClock, {.measures = 95, .concludes = 95});

}  // namespace

}  // namespace fk
