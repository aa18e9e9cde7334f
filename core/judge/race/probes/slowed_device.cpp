// SPDX-License-Identifier: Apache-2.0
// A GPU that was slowed down throughout the race (gpu_telemetry.hpp) has clocks that may favour one
// side.
#include "core/judge/race/case_race.hpp"

namespace fk {

namespace {

class SlowedDevice final : public RaceProbe {
 public:
  void fill(CaseRace& race, TimingRow& row) override {
    if (race.telemetry()) row.clocks = race.telemetry()->seen();
  }

  ProbeFinding penalise(const CaseRace& race, TimingRow& row, const std::string&) const override {
    const std::string why = race.throttling().why();
    if (why.empty()) return {};
    penalise_slowed_device(row.ratio);
    const bool told = row.ratio.speed != Speed::unknown;
    return {why, told ? "" : "Judge it when the device is cool and no other program uses it."};
  }
};

FK_RACE_PROBE(slowed_device, SlowedDevice, {.measures = 120, .concludes = 120});

}  // namespace

}  // namespace fk
