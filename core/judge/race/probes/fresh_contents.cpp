// SPDX-License-Identifier: Apache-2.0
// Calls on new ordinary contents, in turn with calls on seen ones: remembered answers take less
// time on seen contents.
#include <algorithm>

#include "core/judge/race/case_race.hpp"

namespace fk {

namespace {

constexpr int kFreshRounds = 4, kSeenOfRanks = 8;

class FreshContents final : public RaceProbe {
 public:
  void measure(CaseRace& race) override {
    const CaseFacts& facts = race.case_run().facts();
    const bool together = race.ranks() > 1;
    RaceContender &mine = race.candidate(), &theirs = race.baseline();
    const int kept = static_cast<int>(facts.families.size()) - facts.kept;
    // Ranks wait for each other in microseconds, which needs many calls per round. When they wait
    // for cores, some samples take several times as long, which needs several rounds.
    const int rounds = std::min(together ? kFreshRounds / 2 : kFreshRounds, kept);
    if (!rounds) return;
    const int count = std::clamp(kept / rounds, 1, std::min(facts.sets, mine.calls()));
    // A candidate that knows new contents may know what to claim, so the controller's clock counts.
    // Usual messages are taken off. These are few calls. Some samples on a device take far longer
    // to change from process to process, so a device uses the upper quartile.
    const double messages =
        race.on_cpu() ? least_messages_s(theirs.clocks()) : messages_s(theirs.clocks());
    const double unseen = unseen_s(mine.clocks(), theirs.clocks());
    for (int round = 0; round < rounds; ++round) {
      std::vector<int> contents;
      for (int i = 0; i < count; ++i) contents.push_back(facts.kept + round * count + i);
      for (RaceContender* side : {&mine, &theirs}) {
        FreshSamples& samples = side == &mine ? candidate_ : baseline_;
        const int first =
            facts.versions == 1 ? race.case_run().some_first() : contents[0] % facts.sets;
        side->place(round);
        const double beside = messages + (side == &mine ? unseen : 0);
        const auto keep = [&](FreshSamples::Times& times, const RaceContender::Call& call) {
          times.claims_s.push_back(call.own_s * count);
          times.believed_s.push_back(call.believed_s(count, beside));
        };
        const auto again = [&] {
          for (int i = 0; i < (together ? kSeenOfRanks : 1); ++i)
            keep(samples.seen, side->one(count));
        };
        // The caches are cold at the begin of a turn, so the order alternates.
        if (round % 2) again();
        keep(samples.fresh, side->one(first, contents));
        if (round % 2 == 0) again();
      }
    }
    candidate_.usual_s = mine.usual_s() / mine.calls() * count;
    baseline_.usual_s = theirs.usual_s() / theirs.calls() * count;
  }

  std::string evidence(const CaseRace&) const override {
    return remembered_answers(candidate_, baseline_);
  }
  ExtraTime extra(const CaseRace&) const override { return extra_of_fresh(candidate_, baseline_); }

 private:
  FreshSamples candidate_, baseline_;
};

FK_RACE_PROBE(fresh_contents, FreshContents, {.measures = 10, .concludes = 30});

}  // namespace

}  // namespace fk
