// SPDX-License-Identifier: Apache-2.0
// If this fails, the metric `str` calls a turned structure wrong, or a folded one right.
#include <cmath>

#include "core/exec/metric.hpp"
#include "core/tensor/random.hpp"
#include "test/catch.hpp"

namespace {

using fk::Answers;
using fk::NamedTensor;

constexpr int64_t kAtoms = 60, kBins = 50;

double figure(const fk::ErrorNumbers& errors, const std::string& name) {
  for (const auto& distance : errors.more)
    if (distance.name == name) return distance.value;
  FAIL("no figure " << name);
  return 0;
}

// A chain whose atoms follow each other 3.8 apart. `angle` turns it around the last axis, `noise`
// moves each atom; `order` of confidences: -1 turns them around.
Answers chain(double angle, double noise, double order = 1) {
  fk::Random walk(3), moves(4);
  NamedTensor positions{"atom_positions", {kAtoms, 3}, {}};
  NamedTensor logits{"plddt_logits", {kAtoms, kBins}, {}};
  double at[3] = {0, 0, 0};
  for (int64_t i = 0; i < kAtoms; ++i) {
    double step[3], length = 0;
    for (double& s : step) s = walk.normal(), length += s * s;
    for (int c = 0; c < 3; ++c) at[c] += 3.8 * step[c] / std::sqrt(length);
    const double turned[3] = {std::cos(angle) * at[0] - std::sin(angle) * at[1],
                              std::sin(angle) * at[0] + std::cos(angle) * at[1], at[2]};
    for (const double x : turned)
      positions.values.push_back(static_cast<float>(x + noise * moves.normal()));
    const double sure = walk.uniform();
    for (int64_t b = 0; b < kBins; ++b)
      logits.values.push_back(static_cast<float>(order * sure * static_cast<double>(b) / 10));
  }
  Answers answers;
  answers[1].tensors = {std::move(positions), std::move(logits)};
  return answers;
}

TEST_CASE("str does not depend on how a structure is turned, and knows moved atoms") {
  const fk::Metric* str = fk::find_metric("str");
  REQUIRE(str != nullptr);
  const Answers want = chain(0, 0);
  CHECK(figure(str->compare(want, want, false), "lddt_loss") == 0);
  CHECK(figure(str->compare(want, want, false), "plddt_loss") < 1e-12);
  CHECK(figure(str->compare(chain(1, 0), want, false), "lddt_loss") == 0);
  // Errors of distances have the deviation sqrt(2), so few are below 0.5 and most below 4.
  const double moved = figure(str->compare(chain(0, 1), want, false), "lddt_loss");
  CHECK(moved > 0.2);
  CHECK(moved < 0.6);
  CHECK(figure(str->compare(chain(0, 0, -1), want, false), "plddt_loss") > 1.9);
}

TEST_CASE("str judges structures whose atoms are all far from each other") {
  const auto spread = [](Answers answers) {
    for (float& v : answers.at(1).tensors[0].values) v *= 100;
    return answers;
  };
  const fk::Metric* str = fk::find_metric("str");
  const Answers want = spread(chain(0, 0));
  CHECK(figure(str->compare(want, want, false), "lddt_loss") == 0);
  CHECK(figure(str->compare(spread(chain(0, 1)), want, false), "lddt_loss") > 0.9);
}

TEST_CASE("str needs positions of atoms") {
  Answers empty;
  empty[1].tensors = {NamedTensor{"latents", {2, 3}, {0, 1, 2, 3, 4, 5}}};
  CHECK(fk::find_metric("str")->compare(empty, empty, false).wrong.find("atom_positions") !=
        std::string::npos);
}

}  // namespace
