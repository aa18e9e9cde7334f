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
    ratio_ = race_while_faster(mine, theirs, options);
  }

  ProbeFinding penalise(const CaseRace&, TimingRow& row, const std::string&) const override {
    if (!ratio_) return {};
    // The samples of the race may be warm. The ratio with cold memory counts if it is surely lower.
    if (ratio_->blocks > 1 && ratio_->high < row.ratio.low) {
      row.ratio = *ratio_;
      return {"measured with cold memory in both processes", ""};
    }
    // A speedup must also hold with cold memory.
    if (row.ratio.speed != Speed::faster || ratio_->low >= 1) return {};
    row.ratio.low = std::min(row.ratio.low, ratio_->low);
    row.ratio.speed = speed_of(row.ratio.low, row.ratio.high, RaceOptions().band);
    return {"with cold memory in both processes the speedup is not certain", ""};
  }

 private:
  std::optional<Ratio> ratio_;
};

FK_RACE_PROBE(cold_memory, ColdMemory, {.measures = 50, .concludes = 10});

}  // namespace

}  // namespace fk
