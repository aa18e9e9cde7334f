// SPDX-License-Identifier: Apache-2.0
// Clocks that agree and clocks that do not; calls that remember.
#include "core/referee/judge/clocks.hpp"

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

}  // namespace

TEST_CASE("a slow clock is found out", "[judge]") {
  const auto baseline = samples(600e-6, 50e-6, 1);
  CHECK(fk::clock_disagreement(samples(500e-6, 50e-6, 1), baseline).empty());
  CHECK(fk::clock_disagreement(samples(500e-6, 54e-6, 1), baseline).empty());
  CHECK(!fk::clock_disagreement(samples(500e-6, 50e-6, 0.5), baseline).empty());
  CHECK(!fk::clock_disagreement(samples(500e-6, 50e-6, 0.85), baseline).empty());
  // A faster clock harms its owner alone.
  CHECK(fk::clock_disagreement(samples(500e-6, 50e-6, 1.2), baseline).empty());
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
    return fk::FreshSamples{{fresh, fresh * 1.1, fresh * 1.3, fresh * 1.05},
                            {seen, seen * 1.2, seen * 0.9, seen, seen}};
  };
  const auto honest = side(1e-3, 1e-3);
  CHECK(fk::remembered_answers(honest, honest).empty());
  CHECK(!fk::remembered_answers(side(1e-3, 1e-4), honest).empty());
  // Where the baseline is slower as well, it is the contents.
  CHECK(fk::remembered_answers(side(1e-3, 5e-4), side(2e-3, 1e-3)).empty());
  // One slow sample is noise.
  fk::FreshSamples noisy = honest;
  noisy.fresh_s[0] = 5e-3;
  CHECK(fk::remembered_answers(noisy, honest).empty());
}
