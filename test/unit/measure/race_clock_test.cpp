// SPDX-License-Identifier: Apache-2.0
// The race between contenders whose true times are known.
#include "core/measure/race_clock.hpp"

#include <cmath>
#include <vector>

#include "core/tensor/random.hpp"
#include "test/catch.hpp"

namespace {

// Seconds around `mean` with a relative spread, and a slow drift which all contenders share through
// `clock`. Now and then a disturbance makes a sample ten times as long.
class Mutant final : public fk::Contender {
 public:
  Mutant(double mean, double spread, uint64_t seed, int* clock = nullptr, double outliers = 0,
         double dropped = 0)
      : mean_(mean),
        spread_(spread),
        outliers_(outliers),
        dropped_(dropped),
        clock_(clock),
        random_(seed) {}
  std::optional<double> sample() override {
    ++asked;
    const double drift = clock_ ? 1 + 1e-4 * (*clock_)++ : 1;
    if (random_.uniform() < dropped_) return std::nullopt;
    const double noise = std::exp(spread_ * random_.normal());
    return mean_ * drift * noise * (random_.uniform() < outliers_ ? 10 : 1);
  }
  int asked = 0;

 private:
  double mean_, spread_, outliers_, dropped_;
  int* clock_;
  fk::Random random_;
};

fk::RaceResult race(fk::Contender& a, fk::Contender& b, int blocks_max = 2000) {
  fk::Contender* both[] = {&a, &b};
  fk::RaceOptions options;
  options.seconds = 20;  // never reached: a mutant takes no time
  options.blocks_max = blocks_max;
  return fk::race(both, options);
}

}  // namespace

TEST_CASE("timer_finds_one_percent") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    Mutant slow(1.00e-5, 0.02, seed), fast(0.98e-5, 0.02, seed + 100);
    const fk::RaceResult result = race(slow, fast);
    const fk::Ratio r = result.ratio(1, 0);
    CHECK(result.settled());
    CHECK(r.speed == fk::Speed::faster);
    CHECK(std::abs(r.value - 1 / 0.98) < 0.005);
    CHECK(result.ratio(0, 1).speed == fk::Speed::slower);
  }
}

TEST_CASE("timer_says_same_for_equals") {
  int same = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Mutant a(1e-5, 0.02, seed), b(1e-5, 0.02, seed + 1000);
    const fk::Ratio r = race(a, b).ratio(1, 0);
    CHECK(r.speed != fk::Speed::faster);
    CHECK(r.speed != fk::Speed::slower);
    same += r.speed == fk::Speed::same;
  }
  CHECK(same >= 99);
}

TEST_CASE("timer_does_not_count_a_difference_within_the_band") {
  Mutant a(1e-5, 0.01, 1), b(0.997e-5, 0.01, 2);
  CHECK(race(a, b).ratio(1, 0).speed == fk::Speed::same);
}

TEST_CASE("timer_cannot_tell_when_noise_is_large") {
  Mutant a(1e-5, 0.5, 1), b(0.99e-5, 0.5, 2);
  const fk::RaceResult result = race(a, b, 40);
  CHECK(!result.settled());
  const fk::Ratio r = result.ratio(1, 0);
  CHECK(r.speed == fk::Speed::unknown);
  CHECK(r.low < 0.99);
  CHECK(r.high > 1.01);
}

TEST_CASE("timer_interval_holds_the_truth_as_often_as_it_says") {
  // 400 races of 12 blocks at 99 %: about four miss; eleven would be a chance in a thousand.
  int missed = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Mutant a(1e-5, 0.03, 2 * seed), b(1.1e-5, 0.03, 2 * seed + 1);
    const fk::Ratio r = race(a, b, 12).ratio(1, 0);
    missed += r.low > 1 / 1.1 || r.high < 1 / 1.1;
  }
  CHECK(missed <= 11);
}

TEST_CASE("timer_is_not_moved_by_outliers_or_by_a_drift") {
  int clock = 0;
  Mutant a(1e-5, 0.01, 1, &clock, 0.03), b(1e-5, 0.01, 2, &clock, 0.03);
  const fk::Ratio r = race(a, b).ratio(1, 0);
  CHECK(r.speed == fk::Speed::same);
}

TEST_CASE("timer_stops_early_when_the_difference_is_large") {
  Mutant a(1e-5, 0.05, 1), b(1e-6, 0.05, 2);
  const fk::RaceResult result = race(a, b);
  CHECK(result.settled());
  CHECK(result.blocks() <= 12);
  CHECK(result.ratio(1, 0).value > 9);
}

TEST_CASE("timer_needs_fewer_blocks_where_the_difference_is_clear_and_the_noise_small") {
  const auto blocks = [](double mean, double spread) {
    Mutant a(1e-5, spread, 1), b(mean, spread, 2);
    return race(a, b).blocks();
  };
  const fk::RaceOptions options;
  CHECK(blocks(0.5e-5, 0.01) == options.blocks_clear);
  CHECK(blocks(2e-5, 0.01) == options.blocks_clear);
  CHECK(blocks(0.9e-5, 0.001) == options.blocks_min);  // faster, and not by far
  CHECK(blocks(1e-5, 0.001) == options.blocks_min);
  CHECK(blocks(0.5e-5, 0.3) >= options.blocks_min);  // by how much is open
  // The early end needs every contender far from the first one, and c is near it.
  Mutant a(1e-5, 0.01, 1), b(0.5e-5, 0.01, 2), c(1e-5, 0.001, 3);
  fk::Contender* all[] = {&a, &b, &c};
  fk::RaceOptions three;
  three.seconds = 20;
  CHECK(fk::race(all, three).blocks() >= options.blocks_min);
}

TEST_CASE("timer_counts_dropped_samples_and_leaves_their_blocks_out") {
  Mutant a(1e-5, 0.01, 1), b(1e-5, 0.01, 2, nullptr, 0, 0.25);
  const fk::RaceResult result = race(a, b);
  const fk::Timing& t = result.timing(1);
  CHECK(result.timing(0).dropped == 0);
  CHECK(t.dropped > 0);
  CHECK(t.samples + t.dropped == 2 * result.blocks());
  CHECK(result.ratio(1, 0).blocks < result.blocks());
  CHECK(result.ratio(1, 0).speed == fk::Speed::same);
}

TEST_CASE("timer_gives_median_and_quartiles") {
  CHECK(fk::quantile({4, 1, 3, 2, 5}, 0.5) == 3);
  CHECK(fk::quantile({4, 1, 3, 2, 5}, 0.25) == 2);
  CHECK(fk::quantile({1, 2}, 0.5) == 1.5);
  CHECK(fk::quantile({}, 0.5) == 0);
  Mutant a(1e-5, 0.1, 1), b(1e-5, 0.1, 2);
  const fk::Timing t = race(a, b).timing(0);
  // A normal quartile is 0.674 standard deviations from the median.
  CHECK(std::abs(std::log(t.median_s / 1e-5)) < 0.03);
  CHECK(std::abs(std::log(t.high_s / t.median_s) - 0.0674) < 0.02);
  CHECK(std::abs(std::log(t.median_s / t.low_s) - 0.0674) < 0.02);
}

TEST_CASE("timer_takes_turns_forwards_and_backwards") {
  std::vector<int> order;
  struct Logged final : fk::Contender {
    Logged(int id, std::vector<int>& log) : id_(id), log_(log) {}
    std::optional<double> sample() override {
      log_.push_back(id_);
      return 1e-6;
    }
    int id_;
    std::vector<int>& log_;
  };
  Logged a(0, order), b(1, order), c(2, order);
  fk::Contender* all[] = {&a, &b, &c};
  fk::RaceOptions options;
  options.blocks_min = options.blocks_max = 2;
  fk::race(all, options);
  const std::vector<int> want = {0, 1, 2, 0, 1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0};
  CHECK(order == want);
}

TEST_CASE("timer_asks_a_contender_that_takes_the_whole_budget_a_few_times_only") {
  Mutant a(1.0, 0.01, 1), b(1e-5, 0.01, 2);
  fk::Contender* both[] = {&a, &b};
  fk::RaceOptions options;
  options.seconds = 2;
  options.blocks_min = 2;
  options.blocks_max = 50;
  const fk::RaceResult result = fk::race(both, options);
  CHECK(a.asked <= 12);
  CHECK(result.timing(0).dropped == 0);
  const fk::Ratio r = result.ratio(1, 0);
  CHECK(r.blocks >= 2);
  CHECK(r.speed == fk::Speed::faster);
}

TEST_CASE("timer_knows_nothing_from_one_block") {
  const double one[] = {0.5};
  CHECK(fk::ratio_of(one, 0.01).speed == fk::Speed::unknown);
  CHECK(fk::ratio_of({}, 0.01).blocks == 0);
  // But that who takes a hundred times as long is slower: no noise is that large.
  const auto alone = [](double ratio) {
    const double log_ratio[] = {std::log(ratio)};
    return fk::ratio_of(log_ratio, 0.01);
  };
  CHECK(alone(0.01).speed == fk::Speed::slower);
  CHECK(alone(0.01).low < alone(0.01).high);
  CHECK(alone(0.7).speed == fk::Speed::unknown);
  CHECK(alone(0.7).low < 0.5);
  CHECK(alone(0.7).high > 1);
  CHECK(alone(100).speed == fk::Speed::unknown);
}

TEST_CASE("timer_stops_by_the_time_that_counts_for_all") {
  Mutant a(1e-5, 0.5, 1), b(1e-5, 0.5, 2);
  fk::Contender* both[] = {&a, &b};
  fk::RaceOptions options;
  options.seconds = 20;
  options.spent = [](double) { return 100.0; };  // another process was slower
  const fk::RaceResult result = fk::race(both, options);
  CHECK_FALSE(result.settled());
  CHECK(result.blocks() <= options.blocks_min);
}

namespace {

// Waits for a core in each sample, which makes the sample longer by as much.
class Waiting final : public fk::Contender {
 public:
  Waiting(double mean, double wait, double told, uint64_t seed)
      : mean_(mean), wait_(wait), told_(told), random_(seed) {}
  std::optional<double> sample() override {
    return mean_ * std::exp(0.02 * random_.normal()) + wait_;
  }
  double waited_s() const override { return told_; }

 private:
  double mean_, wait_, told_;
  fk::Random random_;
};

}  // namespace

TEST_CASE("timer_interval_holds_the_truth_where_a_scheduler_favours_one_side") {
  // Twice as fast, but it waits in all of its samples.
  Waiting baseline(2e-3, 0, 0, 1), quick(1e-3, 3e-3, 3e-3, 2);
  const fk::Ratio r = race(baseline, quick, 20).ratio(1, 0);
  CHECK(r.low < 0.6);
  CHECK(r.high > 1.9);
  CHECK(r.speed == fk::Speed::unknown);
}

TEST_CASE("timer_gives_nothing_for_waits_that_a_contender_makes_for_itself") {
  Waiting baseline(1e-3, 0, 0, 3), slow(2e-3, 0, 1.9e-3, 4);
  CHECK(race(baseline, slow, 20).ratio(1, 0).speed != fk::Speed::faster);
}

TEST_CASE("timer_does_not_count_the_wait_of_waking_up") {
  Waiting baseline(2e-3, 0, 20e-6, 5), quick(1e-3, 0, 20e-6, 6);
  const fk::Ratio r = race(baseline, quick, 20).ratio(1, 0);
  CHECK(r.speed == fk::Speed::faster);
  CHECK(r.high / r.low < 1.1);
}
