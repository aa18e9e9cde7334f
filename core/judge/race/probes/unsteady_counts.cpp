// SPDX-License-Identifier: Apache-2.0
// Numbers of calls per sample that do not converge make the timing inconclusive.
#include "core/judge/race/case_race.hpp"

namespace fk {

namespace {

class UnsteadyCounts final : public RaceProbe {
 public:
  ProbeFinding penalise(const CaseRace& race, TimingRow& row, const std::string&) const override {
    if (race.counts_are_good() || row.ratio.speed != Speed::faster) return {};
    penalise_faster(row.ratio);
    return {"the number of calls per sample does not converge", ""};
  }
};

FK_RACE_PROBE(unsteady_counts, UnsteadyCounts, {.measures = 130, .concludes = 130});

}  // namespace

}  // namespace fk
