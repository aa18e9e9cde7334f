// SPDX-License-Identifier: Apache-2.0
// Compares the worker's clock with the controller's, and adds the time that the candidate did not
// claim, as all probes measured it.
#include "core/judge/race/case_race.hpp"

namespace fk {

namespace {

class TwoClocks final : public RaceProbe {
 public:
  std::string evidence(const CaseRace& race) const override {
    return clock_disagreement(race.candidate().clocks(), race.baseline().clocks(), race.wake_s());
  }

  ProbeFinding penalise(const CaseRace& race, TimingRow& row, const std::string&) const override {
    const RaceContender& mine = race.candidate();
    Ratio penalised = row.ratio;
    const std::string why =
        take_penalty_off(penalised, mine.clocks(), race.baseline().clocks(), race.extras(),
                         race.result().timing(1).median_s * mine.calls());
    if (why.empty()) return {};
    if (race.on_cpu()) {
      row.ratio = penalised;
    } else {
      // GPU calls are short compared with the spread of wake-up times. So a penalty lowers the
      // interval and leaves the ratio.
      row.ratio.low = penalised.low;
      row.ratio.speed = speed_of(row.ratio.low, row.ratio.high, RaceOptions().band);
    }
    return {why, ""};
  }
};

FK_RACE_PROBE(two_clocks, TwoClocks, {.measures = 60, .concludes = 20});

}  // namespace

}  // namespace fk
