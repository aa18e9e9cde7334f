// SPDX-License-Identifier: Apache-2.0
// A baseline that the candidate starved does not count as beaten.
#include <algorithm>

#include "core/base/text.hpp"
#include "core/judge/race/case_race.hpp"

namespace fk {

namespace {

class FailedBaseline final : public RaceProbe {
 public:
  ProbeFinding penalise(const CaseRace& race, TimingRow& row, const std::string&) const override {
    const auto& all = race.case_run().row().passed_over;
    const auto failed = std::find_if(all.begin(), all.end(),
                                     [](const auto& p) { return !starts_with(p.why, kItIsWrong); });
    if (failed == all.end() || row.ratio.speed != Speed::faster) return {};
    penalise_faster(row.ratio);
    return {"the baseline " + failed->name + " failed and might have been faster", ""};
  }
};

FK_RACE_PROBE(failed_baseline, FailedBaseline, {.measures = 110, .concludes = 110});

}  // namespace

}  // namespace fk
