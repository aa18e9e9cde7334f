// SPDX-License-Identifier: Apache-2.0
// Numbers of speed: known samples give known figures, and noise is not called a speedup.
#include "core/scenario/metrics.hpp"

#include <cmath>
#include <functional>

#include "core/scenario/workload_result.hpp"
#include "core/tensor/random.hpp"
#include "test/catch.hpp"

using namespace fk;

namespace {

RequestResult result(int64_t prompt, const std::vector<double>& token_s) {
  RequestResult r;
  r.request.tokens.resize(static_cast<size_t>(prompt));
  r.tokens.resize(token_s.size());
  r.token_s = token_s;
  r.done_s = token_s.back();
  return r;
}

}  // namespace

TEST_CASE("metrics_figure_of_known_values") {
  const Figure f = figure_of({5, 1, 2, 3, 4});
  CHECK(f.median == 3);
  CHECK(f.p10 == Approx(1.4));
  CHECK(f.p90 == Approx(4.6));
  CHECK(figure_of({}).count == 0);
}

TEST_CASE("metrics_round_of_two_requests") {
  Round round;
  round.start_s = 10;
  round.end_s = 14;
  round.requests[1] = result(30, {11, 12, 13});
  round.requests[2] = result(30, {12, 13, 14});
  SpeedSamples s;
  s.add(round, true);
  CHECK(s.total_s == std::vector<double>{4});
  CHECK(s.prefill_tokens_s[0] == Approx(60.0 / 2));
  CHECK(s.decode_tokens_s[0] == Approx(3.0 / 2));  // after 12: tokens at 13, 13 and 14
  CHECK(s.first_token_s == std::vector<double>{1, 2});
  CHECK(s.token_s == std::vector<double>{1, 1});
  SpeedSamples mixed;
  mixed.add(round, false);
  CHECK(mixed.decode_tokens_s[0] == Approx(4.0 / 3));  // after 11
}

// Two sides whose processes differ. In each process, one side is slower than its average by a
// factor, in all rounds. Every round has noise of its own.
namespace {

struct Simulated {
  double ratio = 1;                     // the truth
  std::function<double(Random&)> luck;  // of a process, in logarithms
  double noise = 0.03;                  // of a round
  int processes = 6, rounds = 2;

  std::vector<PairTimes> draw(Random& random) const {
    std::vector<PairTimes> pairs;
    for (int process = 0; process < processes; ++process) {
      const double own = luck(random), its = luck(random);
      for (int round = 0; round < rounds; ++round)
        pairs.push_back({process, ratio * std::exp(own + noise * random.normal()),
                         std::exp(its + noise * random.normal())});
    }
    return pairs;
  }
  // Shares of intervals that hold the truth, and of those that say `faster`.
  struct Shares {
    double held = 0, faster = 0;
  };
  Shares shares() const {
    constexpr int kRuns = 4000;
    Random random(20261127);
    Shares s;
    for (int run = 0; run < kRuns; ++run) {
      const Speedup speedup = speedup_of(draw(random));
      s.held += speedup.low <= ratio && ratio <= speedup.high;
      s.faster += speed_verdict(speedup) == "faster";
    }
    return {s.held / kRuns, s.faster / kRuns};
  }
};

// Normal, of that standard deviation.
std::function<double(Random&)> normal_luck(double deviation) {
  return [=](Random& random) { return deviation * random.normal(); };
}
// A process in so many is slow by that factor for its whole life.
std::function<double(Random&)> slow_processes(double share, double factor) {
  return [=](Random& random) { return random.uniform() < share ? std::log(factor) : 0; };
}

}  // namespace

TEST_CASE("the interval holds the truth where processes differ") {
  for (const int processes : {3, 6, 16})
    for (const double ratio : {0.18, 1.0, 1.2})
      for (const double deviation : {0.0, 0.005, 0.5}) {
        Simulated sides{ratio, normal_luck(deviation)};
        sides.processes = processes;
        CAPTURE(processes, ratio, deviation);
        // 95 % of 4000 intervals, and four standard deviations of that share.
        CHECK(sides.shares().held > 0.95 - 4 * 0.0034);
        CHECK(sides.shares().held < 0.95 + 4 * 0.0034);
      }
}

// Both threads of a lucky process on one core: 170 us a token, of others 640 us.
TEST_CASE("luck of processes is no speedup") {
  for (const double share : {0.1, 0.3, 0.5, 0.9}) {
    CAPTURE(share);
    CHECK(Simulated{1, slow_processes(share, 640.0 / 170)}.shares().faster < 0.025 + 4 * 0.0025);
    // A pair of a lucky and an unlucky process makes 3.0 of 0.8.
    CHECK(Simulated{0.8, slow_processes(share, 640.0 / 170)}.shares().faster < 0.025 + 4 * 0.0025);
  }
}

TEST_CASE("what is faster is told so where processes are alike") {
  CHECK(Simulated{1.05, normal_luck(0.01), 0.01}.shares().faster > 0.8);
  CHECK(Simulated{2, normal_luck(0.1)}.shares().faster > 0.99);
}

TEST_CASE("metrics_verdicts") {
  const auto speedup = [](std::vector<double> by_process) {
    std::vector<PairTimes> pairs;
    for (size_t p = 0; p < by_process.size(); ++p)
      for (const double more : {0.999, 1.001})
        pairs.push_back({static_cast<int>(p), by_process[p] * more, 1});
    return speedup_of(pairs);
  };
  const Speedup twice = speedup({2.01, 1.99, 2, 2, 2, 2});
  CHECK(twice.ratio == Approx(2).epsilon(0.001));
  CHECK(twice.pairs == 12);
  CHECK(twice.by_process.size() == 6);
  CHECK(twice.by_process[1] == Approx(1.99).epsilon(0.001));
  CHECK(speed_verdict(twice) == "faster");
  CHECK(speed_verdict(speedup({0.5, 0.51, 0.49})) == "slower");
  CHECK(speed_verdict(speedup({1, 1.001, 0.999})) == "same");
  CHECK(speed_verdict(speedup({2, 0.7, 1.3, 0.8, 2, 0.7})) == "cannot tell");
  // One process of each side, however many rounds it has, and none.
  CHECK(speed_verdict(speedup({2})) == "cannot tell");
  CHECK(speed_verdict(speedup_of({})) == "cannot tell");
  // Two, by Student's t of one degree of freedom.
  const Speedup two = speedup({2, 1});
  CHECK(std::log(two.high / two.ratio) == Approx(12.706 * std::log(2.0) / 2).epsilon(0.001));
}

TEST_CASE("a process has at least two pairs, so that each side goes first once") {
  Workload w;
  CHECK(pairs_of_process(w, 1, false) == 2);
  CHECK(pairs_of_process(w, 1, true) == 4);
  CHECK(pairs_of_process(w, 6, true) == 2);
  w.iterations = 20;
  CHECK(pairs_of_process(w, 1, true) == 20);
  CHECK(pairs_of_process(w, 6, true) == 4);
  CHECK(pairs_of_process(w, 16, true) == 2);
}
