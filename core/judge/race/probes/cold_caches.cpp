// SPDX-License-Identifier: Apache-2.0
// Samples before which the oracle flushes all caches, which no candidate can prevent. Less precise
// than cold_memory.cpp, because code is cold too. For CPUs: a device's own flush leaves nothing in
// the cache.
#include <algorithm>

#include "core/judge/race/case_race.hpp"

namespace fk {

namespace {

constexpr int kColdRounds = 3;

class ColdCaches final : public RaceProbe {
 public:
  void measure(CaseRace& race) override {
    if (!race.gains() || !race.on_cpu()) return;
    ClockSamples cold[2];
    std::vector<double> usual_s[2];
    RaceContender* const sides[] = {&race.candidate(), &race.baseline()};
    for (int round = 0; round < kColdRounds; ++round) {
      for (size_t side = 0; side < 2; ++side) {
        sides[side]->place(round);
        const int count = sides[side]->calls();
        usual_s[side].push_back(sides[side]->one(count).own_s * count);
        SampleOptions flushed = sides[side]->options();
        flushed.way = SampleOptions::Way::cold;
        const auto call = sides[side]->one(count, flushed);
        cold[side].claims_s.push_back(call.own_s * count);
        cold[side].walls_s.push_back(call.wall_s);
      }
    }
    // The code that reads messages is cold too.
    const double theirs = least_messages_s(cold[1]);
    const double messages[] = {theirs + unseen_s(sides[0]->clocks(), sides[1]->clocks()), theirs};
    for (size_t side = 0; side < 2; ++side)
      for (size_t i = 0; i < usual_s[side].size(); ++i)
        (side == 0 ? candidate_ : baseline_)
            .longer_s.push_back(
                std::max(cold[side].claims_s[i], cold[side].walls_s[i] - messages[side]) -
                usual_s[side][i]);
  }

  ExtraTime extra(const CaseRace&) const override { return extra_of_cold(candidate_, baseline_); }

 private:
  ColdSamples candidate_, baseline_;
};

FK_RACE_PROBE(cold_caches, ColdCaches, {.measures = 40, .concludes = 50});

}  // namespace

}  // namespace fk
