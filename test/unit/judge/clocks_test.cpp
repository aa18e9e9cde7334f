// SPDX-License-Identifier: Apache-2.0
// Clocks that agree and clocks that do not; calls that remember.
#include "core/judge/race/timing_penalty.hpp"

#include <unistd.h>

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "core/tensor/random.hpp"
#include "test/catch.hpp"

namespace {

// `beside_s` is what a request takes beside its calls, and `claimed` the share of their time that
// is owned up to.
fk::ClockSamples samples(double calls_s, double beside_s, double claimed) {
  fk::ClockSamples out;
  for (int i = 0; i < 40; ++i) {
    const double jitter = 2e-6 * ((i * 7) % 5);
    out.claims_s.push_back(calls_s * claimed);
    out.walls_s.push_back(calls_s + beside_s + jitter);
  }
  return out;
}

// The seconds of its calls in one race, those in the next, and so on.
class Scripted final : public fk::Contender {
 public:
  explicit Scripted(std::vector<double> races_s) : races_s_(std::move(races_s)) {}
  std::optional<double> sample() override {
    const auto race = static_cast<size_t>(races());
    ++asked_;
    return races_s_.at(race);
  }
  static constexpr int kBlocks = 4, kSamples = 2 * kBlocks + 1;  // and one before the first
  int races() const { return asked_ / kSamples; }

 private:
  std::vector<double> races_s_;
  int asked_ = 0;
};

// The candidate takes these times of the baseline's in one race after the other.
fk::Ratio least_of(const std::vector<double>& candidate, int races) {
  Scripted its(candidate), other(std::vector<double>(candidate.size(), 1));
  fk::RaceOptions options;
  options.blocks_min = options.blocks_max = Scripted::kBlocks;
  const fk::Ratio least = fk::race_while_faster(its, other, options);
  CHECK(its.races() == races);
  CHECK(other.races() == races);
  return least;
}

}  // namespace

TEST_CASE("who is faster by chance when its memory is cold has to be so again", "[judge]") {
  using fk::Speed;
  // The second race speaks against it, or only the third; what says least is believed.
  CHECK(least_of({0.8, 1.25, 0.8}, 2).speed == Speed::slower);
  const fk::Ratio third = least_of({0.8, 0.9, 1.25}, 3);
  CHECK(third.speed == Speed::slower);
  CHECK(std::abs(third.value - 0.8) < 1e-9);
  const fk::Ratio always = least_of({0.8, 0.5, 0.4}, 3);
  CHECK(always.speed == Speed::faster);
  CHECK(std::abs(always.value - 1.25) < 1e-9);
  // Nothing is gained by more races of who is not faster; chance speaks for nobody a second time.
  CHECK(least_of({1.25, 0.5, 0.5}, 1).speed == Speed::slower);
}

TEST_CASE("a race with cold memory makes nobody slower by chance or on busy cores", "[judge]") {
  using namespace fk;
  const auto ratio = [](double value, double half, int blocks) {
    Ratio r{value, value - half, value + half, blocks, Speed::unknown};
    r.speed = speed_of(r.low, r.high, RaceOptions().band);
    return r;
  };
  const Ratio fast = ratio(1.5, 0.1, 20), slow = ratio(0.7, 0.05, 20), mild = ratio(0.8, 0.05, 20);
  // Two races agree: the milder one is the ratio.
  Ratio r = fast;
  CHECK(penalise_cold(r, {slow, mild}) == "measured with cold memory in both processes");
  CHECK(r.speed == Speed::slower);
  CHECK(r.value == 0.8);
  r = fast;
  const Ratio still = ratio(1.2, 0.05, 20);
  (void)penalise_cold(r, {still, still});
  CHECK(r.speed == Speed::faster);
  CHECK(r.value == 1.2);
  // The second race, the cores or too few blocks leave it open. The measured ratio stays.
  const ColdRaces open[] = {{slow, fast},
                            {slow, std::nullopt},
                            {slow, mild, true},
                            {ratio(0.7, 0.05, 4), ratio(0.7, 0.05, 4)}};
  for (const ColdRaces& cold : open) {
    for (const Ratio& usual : {fast, ratio(1.0, 0.005, 20)}) {
      r = usual;
      const std::string why = penalise_cold(r, cold);
      if (cold.worst.blocks < 5 && usual.speed == Speed::same) {
        CHECK(why.empty());
        continue;
      }
      CHECK(r.speed == Speed::unknown);
      CHECK(r.value == usual.value);
      CHECK(r.low == cold.worst.low);
      CHECK((why.find("other programs") != std::string::npos) == cold.busy);
    }
  }
  r = fast;
  CHECK(penalise_cold(r, {ratio(1.45, 0.1, 20), {}}).empty());
  CHECK(r.low == fast.low);
}

TEST_CASE("on busy cores penalties alone make nobody slower", "[judge]") {
  using namespace fk;
  Ratio fast{1.3, 1.25, 1.35, 20, Speed::faster}, penalised{0.8, 0.7, 0.9, 20, Speed::slower};
  Ratio r = penalised;
  CHECK(forgive_slower(r, fast));
  CHECK(r.speed == Speed::unknown);
  CHECK(r.low == 0.7);
  CHECK(r.high == 1.35);
  // Slower in the race itself stays slower, or a candidate could hide it.
  r = penalised;
  CHECK_FALSE(forgive_slower(r, penalised));
  CHECK(r.speed == Speed::slower);
  r = fast;
  CHECK_FALSE(forgive_slower(r, fast));
  CHECK(r.speed == Speed::faster);
}

TEST_CASE("ranks that share their cores with others have no speed to boast of") {
  using namespace fk;
  ClockSamples quiet{std::vector<double>(40, 500e-6), std::vector<double>(40, 600e-6)};
  std::vector<double> waits(40, 60e-6);             // to wake up
  for (size_t i = 0; i < 10; ++i) waits[i] = 4e-3;  // once in a while something else runs
  CHECK_FALSE(cores_are_busy(quiet, waits));
  waits[10] = 4e-3;
  CHECK(cores_are_busy(quiet, waits));
  CHECK_FALSE(cores_are_busy({}, {}));

  Ratio ratio;
  ratio.value = 1.3, ratio.low = 1.25, ratio.high = 1.35, ratio.speed = Speed::faster;
  penalise_faster(ratio);
  CHECK(ratio.speed == Speed::unknown);
  CHECK(ratio.low == 1.0);
  CHECK(ratio.high == 1.35);
  CHECK(ratio.value == 1.3);
  Ratio slow = ratio;
  slow.low = 0.7, slow.high = 0.8, slow.speed = Speed::slower;
  penalise_faster(slow);
  CHECK(slow.speed == Speed::slower);
  CHECK(slow.low == 0.7);
}

TEST_CASE("between sets of ranks a short call may differ by 2 %") {
  using namespace fk;
  Ratio slow;
  slow.value = 0.985, slow.low = 0.979, slow.high = 0.99, slow.speed = Speed::slower;
  Ratio of_long = slow;
  CHECK(penalise_one_set(slow, 7e-6));
  CHECK(slow.speed == Speed::unknown);
  CHECK(slow.value == 0.985);
  CHECK(!penalise_one_set(of_long, 1e-3));
  CHECK(of_long.speed == Speed::slower);
  CHECK(of_long.low == 0.979);
  Ratio fast;
  fast.value = 1.2, fast.low = 1.19, fast.high = 1.21, fast.speed = Speed::faster;
  CHECK(!penalise_one_set(fast, 7e-6));
  CHECK(fast.speed == Speed::faster);
  CHECK(fast.low < 1.17);
}

TEST_CASE("on a GPU that was slowed down throughout nobody is faster or as fast") {
  using namespace fk;
  Ratio fast;
  fast.value = 1.3, fast.low = 1.25, fast.high = 1.35, fast.speed = Speed::faster;
  penalise_slowed_device(fast);
  CHECK(fast.speed == Speed::unknown);
  CHECK(speed_of(fast.low, fast.high, fk::RaceOptions().band) == Speed::unknown);
  CHECK(fast.value == 1.3);
  Ratio same;
  same.value = 1, same.low = 0.999, same.high = 1.001, same.speed = Speed::same;
  penalise_slowed_device(same);
  CHECK(speed_of(same.low, same.high, fk::RaceOptions().band) == Speed::unknown);
  Ratio slow;
  slow.value = 0.75, slow.low = 0.7, slow.high = 0.8, slow.speed = Speed::slower;
  penalise_slowed_device(slow);
  CHECK(slow.speed == Speed::slower);
  CHECK(slow.high == 0.8);
}

TEST_CASE("what a process waits for a core is what the kernel says") {
  CHECK(fk::waited_for_core_s(static_cast<int>(::getpid())) >= 0);
  CHECK(fk::waited_for_core_s(-1) == 0);
}

TEST_CASE("a slow clock is found out", "[judge]") {
  const auto baseline = samples(600e-6, 50e-6, 1);
  CHECK(fk::clock_disagreement(samples(500e-6, 50e-6, 1), baseline).empty());
  CHECK(fk::clock_disagreement(samples(500e-6, 54e-6, 1), baseline).empty());
  CHECK(!fk::clock_disagreement(samples(500e-6, 50e-6, 0.5), baseline).empty());
  CHECK(!fk::clock_disagreement(samples(500e-6, 50e-6, 0.85), baseline).empty());
  // A faster clock harms its owner alone.
  CHECK(fk::clock_disagreement(samples(500e-6, 50e-6, 1.2), baseline).empty());
}

TEST_CASE("a sample that is claimed to take no time is in the ratio", "[judge]") {
  CHECK(fk::counted_s(0) > 0);
  CHECK(fk::counted_s(0) < 2e-9);
  CHECK(fk::counted_s(3e-6) == 3e-6);
}

TEST_CASE("a process that wakes up slowly is believed, within limits", "[judge]") {
  const auto baseline = samples(600e-6, 50e-6, 1);
  const auto sleepy = samples(500e-6, 140e-6, 1);
  CHECK(!fk::clock_disagreement(sleepy, baseline).empty());
  CHECK(fk::clock_disagreement(sleepy, baseline, 90e-6).empty());
  // It does not hide more than that, however slowly it wakes up.
  CHECK(!fk::clock_disagreement(samples(500e-6, 50e-6, 0.7), baseline, 1).empty());
  CHECK(!fk::clock_disagreement(samples(500e-6, 50e-6, 0.85), baseline, -1).empty());
}

TEST_CASE("remembered answers are found out", "[judge]") {
  const auto side = [](double fresh, double seen) {
    const std::vector<double> new_ones{fresh, fresh * 1.1, fresh * 1.3, fresh * 1.05};
    const std::vector<double> others{seen, seen * 1.2, seen * 0.9, seen, seen};
    return fk::FreshSamples{{new_ones, new_ones}, {others, others}};
  };
  const auto honest = side(1e-3, 1e-3);
  CHECK(fk::remembered_answers(honest, honest).empty());
  CHECK(!fk::remembered_answers(side(1e-3, 1e-4), honest).empty());
  // Where the baseline is slower as well, it is the contents.
  CHECK(fk::remembered_answers(side(1e-3, 5e-4), side(2e-3, 1e-3)).empty());
  // One slow sample is noise.
  fk::FreshSamples noisy = honest;
  noisy.fresh.believed_s[0] = 5e-3;
  CHECK(fk::remembered_answers(noisy, honest).empty());
  // So are all, where one of many others was as slow; of few, it may have been made so.
  fk::FreshSamples busy = side(1e-3, 1e-4);
  busy.seen.believed_s[1] = 1.1e-3;
  CHECK(!fk::remembered_answers(busy, honest).empty());
  busy.seen.believed_s.resize(16, 1e-4);
  CHECK(fk::remembered_answers(busy, honest).empty());
}

TEST_CASE("work that begins before its clock is found out", "[judge]") {
  const std::vector<double> usual(40, 500e-6);
  const fk::LateSamples honest{usual, {510e-6, 490e-6, 700e-6, 505e-6}, {}};
  CHECK(fk::early_work(honest, honest).empty());
  const fk::LateSamples early{usual, {20e-6, 30e-6, 20e-6, 300e-6}, {}};
  CHECK(!fk::early_work(early, honest).empty());
  // Once is noise, and so is what happens to both.
  CHECK(fk::early_work({usual, {20e-6, 30e-6, 20e-6, 450e-6}, {}}, honest).empty());
  CHECK(fk::early_work(early, early).empty());
  CHECK(fk::early_work({}, honest).empty());
}

TEST_CASE("who is faster by a little has to be so beyond every penalty", "[judge]") {
  const auto four = [](double s) { return fk::FreshSamples::Times{{s, s, s, s}, {s, s, s, s}}; };
  fk::FreshSamples same{four(1e-3), four(1e-3)};
  const fk::LateSamples none;
  const fk::ColdSamples warm{{40e-6, 50e-6, 100e-6}};
  fk::LateSamples late;
  fk::ColdSamples cold;
  // `claimed`: the ratio by the candidate's clock; calls of the baseline take `times` half a
  // millisecond.
  const auto judged = [&](double claimed, const fk::ClockSamples& mine,
                          const fk::FreshSamples& fresh, std::string& why, double times = 0) {
    fk::Ratio r{claimed, claimed * 0.99, claimed * 1.01, 40, fk::Speed::unknown};
    r.speed = fk::speed_of(r.low, r.high, 0.01);
    const auto theirs = samples(500e-6 * (times > 0 ? times : claimed), 50e-6, 1);
    why = fk::take_penalty_off(r, mine, theirs,
                               {fk::extra_of_fresh(fresh, same), fk::extra_of_late(late, none),
                                fk::extra_of_cold(cold, warm)},
                               500e-6);
    return r;
  };
  std::string why;
  // Clocks that agree change nothing.
  CHECK(judged(1.1, samples(500e-6, 50e-6, 1), same, why).value == 1.1);
  CHECK(why.empty());
  // A clock that leaves out a tenth makes 1.1 of 1.
  const auto slow = judged(1.1, samples(550e-6, 50e-6, 500.0 / 550), same, why);
  CHECK(slow.speed != fk::Speed::faster);
  CHECK(why.find("host's clock") != std::string::npos);
  // A much faster candidate stays faster, by the certain part of its gain.
  const auto fast = judged(2, samples(550e-6, 50e-6, 500.0 / 550), same, why);
  CHECK(fast.speed == fk::Speed::faster);
  CHECK((fast.value > 1.7 && fast.value < 1.95));
  // So do contents that nobody has seen.
  const fk::FreshSamples part{four(1.2e-3), four(1e-3)};
  CHECK(judged(1.1, samples(500e-6, 50e-6, 1), part, why).speed != fk::Speed::faster);
  CHECK(why.find("20 %") != std::string::npos);
  // So do they where all calls take as long from there on, but for what few calls cost everybody.
  fk::FreshSamples slowed{four(1.2e-3), four(1.2e-3), 1e-3};
  CHECK(judged(1.1, samples(500e-6, 50e-6, 1), slowed, why).value == 1.1);  // nobody knows before
  same.usual_s = 1e-3;
  CHECK(judged(1.1, samples(500e-6, 50e-6, 1), slowed, why).speed != fk::Speed::faster);
  CHECK(why.find("14 %") != std::string::npos);
  same.usual_s = 0.8e-3;
  CHECK(judged(1.1, samples(500e-6, 50e-6, 1), slowed, why).value == 1.1);
  // That a baseline was woken up late for new ones excuses nobody; that its calls take longer does.
  same.fresh.believed_s = four(5e-3).believed_s;
  CHECK(judged(1.1, samples(500e-6, 50e-6, 1), part, why).speed != fk::Speed::faster);
  same.fresh = four(1.2e-3);
  CHECK(judged(1.1, samples(500e-6, 50e-6, 1), part, why).value == 1.1);
  same = {four(1e-3), four(1e-3)};
  // So does what is worked before a call that comes late.
  late.early_s = {100e-6, 90e-6, 110e-6};
  CHECK(judged(1.1, samples(500e-6, 50e-6, 1), same, why).speed != fk::Speed::faster);
  CHECK(why.find("late call") != std::string::npos);
  late = {};
  // So does what calls take longer without anything in the caches, if the baseline's do not.
  cold.longer_s = {120e-6, 115e-6, 400e-6};
  CHECK(judged(1.1, samples(500e-6, 50e-6, 1), same, why).speed != fk::Speed::faster);
  CHECK(why.find("cache penalty") != std::string::npos);
  CHECK(why.find("in some samples") == std::string::npos);  // both clocks have it
  cold.longer_s = {400e-6, 45e-6, 120e-6};                  // some of it is noise
  CHECK(judged(1.1, samples(500e-6, 50e-6, 1), same, why).value == 1.1);
  CHECK(why.empty());
  cold = {};
  // A clock that leaves out nearly all in every other sample: what is usual is as it should be.
  auto often = samples(500e-6, 50e-6, 1);
  for (size_t i = 0; i < often.claims_s.size(); i += 2) often.claims_s[i] /= 20;
  CHECK(fk::clock_disagreement(often, samples(600e-6, 50e-6, 1)).empty());
  const auto mostly = judged(4.5, often, same, why, 1.2);
  CHECK((mostly.value > 1.15 && mostly.value < 1.25));
  CHECK(why.find("in some samples") != std::string::npos);
  // The check ignores a candidate which is not faster.
  CHECK(judged(0.9, samples(550e-6, 50e-6, 0.5), same, why).value == 0.9);
  CHECK(why.empty());
}

// Without the penalty, a third of the true time passes for a speedup in two races of five. The
// lower quartiles of milliseconds differ by more than a sample's time.
TEST_CASE("a busy machine hides no slow clock of ranks", "[judge]") {
  constexpr double kTrue = 1e-3;
  int believed = 0, faster = 0, kept = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    fk::Random random(seed);
    const auto side = [&](double share, double busy_s) {
      fk::ClockSamples out;
      for (int i = 0; i < 21; ++i) {
        out.claims_s.push_back(kTrue * share);
        out.walls_s.push_back(kTrue - busy_s * std::log(1 - random.uniform()));
      }
      return out;
    };
    const auto mine = side(1.0 / 3, 3e-3), theirs = side(1, 3e-3);
    fk::Ratio ratio{3, 2.9, 3.1, 10, fk::Speed::faster};
    fk::take_penalty_off(ratio, mine, theirs, {}, kTrue / 3);
    const bool caught = !fk::clock_disagreement(mine, theirs).empty();
    believed += !caught && ratio.speed == fk::Speed::faster;
    fk::penalise_unsteady_clock(ratio, mine, theirs, kTrue / 3);
    faster += !caught && ratio.speed == fk::Speed::faster;
    // A true claim on an idle machine keeps its interval.
    const auto honest = side(1, 20e-6), other = side(1, 20e-6);
    fk::Ratio little{1.1, 1.09, 1.11, 10, fk::Speed::faster};
    kept += fk::penalise_unsteady_clock(little, honest, other, kTrue).empty() && little.low == 1.09;
  }
  CHECK(believed > 60);
  CHECK(faster <= 1);
  CHECK(kept == 200);
}

TEST_CASE("calls that work for those that come next are not faster for it", "[judge]") {
  const auto side = [](double among_s, double alone_s) {
    return fk::AloneSamples{{alone_s, alone_s * 0.9, alone_s * 1.1}, among_s};
  };
  const auto judged = [](double claimed, const fk::AloneSamples& mine, double allowed_s = 0) {
    fk::Ratio r{claimed, claimed * 0.99, claimed * 1.01, 40, fk::Speed::unknown};
    r.speed = fk::speed_of(r.low, r.high, 0.01);
    const std::string why =
        fk::penalise_work_ahead(r, mine, fk::AloneSamples{{3e-6, 3e-6}, 2e-6}, allowed_s);
    CHECK(why.empty() == (r.low == claimed * 0.99));
    return r;
  };
  // As much colder when it is alone as the baseline's.
  CHECK(judged(2, side(1e-6, 2e-6)).speed == fk::Speed::faster);
  CHECK(judged(2, side(1e-6, 1.5e-6)).low == 1.98);
  // Half of its work is done in the call before.
  const auto ahead = judged(2, side(1e-6, 3e-6));
  CHECK(ahead.speed == fk::Speed::unknown);
  CHECK((ahead.value == 2 && ahead.low < 1 && ahead.high == 2.02));
  // A candidate which is faster in spite of this stays faster, by the certain part of its gain.
  const auto both = judged(4, side(0.5e-6, 2e-6));
  CHECK(both.speed == fk::Speed::faster);
  CHECK((both.low > 1.9 && both.low < 2));
  // A device loads more code, within limits.
  CHECK(judged(2, side(1e-6, 3e-6), 1e-6).low == 1.98);
  CHECK(judged(2, side(1e-6, 4e-6), 1e-6).speed == fk::Speed::unknown);
  CHECK(judged(1, side(1e-6, 9e-6)).speed == fk::Speed::same);
  CHECK(judged(2, {}).low == 1.98);
}
