// SPDX-License-Identifier: Apache-2.0
// Widens the interval for short calls of ranks with a GPU each: sets of processes differ there.
#include "core/judge/race/case_race.hpp"

namespace fk {

namespace {

class ShortCallsOfRanks final : public RaceProbe {
 public:
  ProbeFinding penalise(const CaseRace& race, TimingRow& row,
                        const std::string& why) const override {
    if (race.ranks() == 1 || race.on_cpu() ||
        !penalise_one_set(row.ratio, row.candidate.cold.median_s) || !why.empty())
      return {};
    return {"for calls this short, processes of ranks differ by up to 2 %", ""};
  }
};

FK_RACE_PROBE(short_calls_of_ranks, ShortCallsOfRanks, {.measures = 90, .concludes = 90});

}  // namespace

}  // namespace fk
