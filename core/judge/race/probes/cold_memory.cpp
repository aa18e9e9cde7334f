// SPDX-License-Identifier: Apache-2.0
// A short race in which all memory of both processes is cold. A sample's flush removes tensors and
// packed memory from the caches, but not private copies of them. So the candidate's own process
// makes all of its memory cold; this is too slow for all samples.
//
// Code that is read once per sample is larger in a baseline's plugin, and would flatter a small
// candidate. So the baseline calls once after the flush. The candidate does not, because it could
// fetch copies.
#include <algorithm>

#include "core/judge/race/case_race.hpp"

namespace fk {

namespace {

constexpr double kColdSeconds = 0.1;

class ColdMemory final : public RaceProbe {
 public:
  void measure(CaseRace& race) override {
    if (!race.gains() || !race.on_cpu()) return;
    RaceOptions options;
    options.seconds = std::max(kColdSeconds, race.case_run().seconds() / 2);
    const SampleOptions cold{.flush = true, .all_cold = true};
    const int count = race.candidate().calls();
    RaceContender mine(race.case_run(), race.candidate().client(), race.throttling(), count, cold);
    RaceContender theirs(race.case_run(), race.baseline().client(), race.throttling(), count, cold);
    cold_.emplace(ColdRaces{race_while_faster(mine, theirs, options), {}});
    if (contradicts(cold_->worst, race.result().ratio(1, 0))) {
      Contender* const contenders[] = {&theirs, &mine};
      cold_->again = fk::race(contenders, options).ratio(1, 0);
    }
    cold_->busy = mine.had_to_wait() || theirs.had_to_wait();
  }

  ProbeFinding penalise(const CaseRace&, TimingRow& row, const std::string&) const override {
    if (!cold_) return {};
    const std::string why = penalise_cold(row.ratio, *cold_);
    return {why, why.empty() || !cold_->busy ? "" : kIdle};
  }

 private:
  std::optional<ColdRaces> cold_;
};

FK_RACE_PROBE(cold_memory, ColdMemory, {.measures = 50, .concludes = 10});

}  // namespace

}  // namespace fk
