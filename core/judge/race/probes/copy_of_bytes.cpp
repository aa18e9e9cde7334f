// SPDX-License-Identifier: Apache-2.0
// The time of a copy of as many bytes as a call moves, beside the time of the call. For the report.
#include "core/judge/race/case_race.hpp"

namespace fk {

namespace {

class CopyOfBytes final : public RaceProbe {
 public:
  void fill(CaseRace& race, TimingRow& row) override {
    if (race.ranks() > 1) return;
    CaseRun& case_run = race.case_run();
    // 0: memory is short.
    const double copy_s = case_run.room().ask(
        CaseCopy{case_run.id(), race.candidate().calls(), case_run.request().threads});
    for (SideTime* side : {&row.candidate, &row.baseline})
      if (copy_s > 0 && side->cold.median_s > 0) side->of_copy = copy_s / side->cold.median_s;
  }
};

FK_RACE_PROBE(copy_of_bytes, CopyOfBytes, {.measures = 80, .concludes = 80});

}  // namespace

}  // namespace fk
