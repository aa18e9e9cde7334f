// SPDX-License-Identifier: Apache-2.0
// Ranks that wait for cores in use by other programs have the scheduler's times.
#include "core/judge/race/case_race.hpp"

namespace fk {

namespace {

class BusyRanks final : public RaceProbe {
 public:
  ProbeFinding penalise(const CaseRace& race, TimingRow& row, const std::string&) const override {
    if (!race.on_cpu() || race.ranks() == 1 || !race.baseline().had_to_wait() ||
        row.ratio.speed != Speed::faster)
      return {};
    penalise_faster(row.ratio);
    return {"the baseline's ranks waited for cores in use by other programs", ""};
  }
};

FK_RACE_PROBE(busy_ranks, BusyRanks, {.measures = 100, .concludes = 100});

}  // namespace

}  // namespace fk
