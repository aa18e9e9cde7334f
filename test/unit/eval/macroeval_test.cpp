// SPDX-License-Identifier: Apache-2.0
// The score is docs/macroeval.md's: each test fails when one component counts otherwise.
#include "core/eval/macroeval.hpp"

#include <cmath>
#include <limits>

#include "test/catch.hpp"

using namespace fk;

namespace {

ArchitectureResult covered_arch(const std::string& arch, const std::string& family,
                                const std::vector<double>& ratios, double width = 1.01) {
  ArchitectureResult r{arch, family, true, true, 1, {}, ""};
  for (const double ratio : ratios)
    r.workloads.push_back({"w" + std::to_string(r.workloads.size()), "throughput", ratio,
                           ratio / width, ratio * width});
  return r;
}

ArchitectureResult wrong_arch(const std::string& arch, const std::string& family,
                              double correctness) {
  ArchitectureResult r = covered_arch(arch, family, {2.5});
  r.passes = false;
  r.correctness = correctness;
  return r;
}

ArchitectureResult untouched_arch(const std::string& arch, const std::string& family) {
  return {arch, family, false, false, 1, {}, "refused"};
}

}  // namespace

TEST_CASE("macroeval_example_of_the_document") {
  const MacroEval m = macroeval(
      {covered_arch("llama", "llm", {1.6, 1.296}), wrong_arch("mixtral", "llm", calibrated(8, 32)),
       covered_arch("bge_m3", "retrieval", {0.75, 0.6075})},
      1);
  CHECK(m.of.speed == Approx(0.9).epsilon(1e-12));
  CHECK(m.of.correctness == Approx(0.85).epsilon(1e-12));
  CHECK(m.of.coverage == Approx(0.75).epsilon(1e-12));
  CHECK(m.score == Approx(0.57375).epsilon(1e-12));
  REQUIRE(m.families.size() == 2);
  CHECK(m.families[0].family == "llm");
  CHECK(m.families[0].of.speed == Approx(1.2).epsilon(1e-12));
  CHECK(m.families[0].of.correctness == Approx(0.7).epsilon(1e-12));
  CHECK(m.families[0].of.coverage == 0.5);
  CHECK(m.families[0].architectures == 2);
  CHECK(m.families[0].covered == 1);
  CHECK(m.families[1].of.speed == Approx(0.675).epsilon(1e-12));
}

TEST_CASE("macroeval_of_nothing_but_refusals_is_zero") {
  const MacroEval m =
      macroeval({untouched_arch("llama", "llm"), untouched_arch("bge_m3", "retrieval")}, 1);
  CHECK(m.of.coverage == 0);
  CHECK(m.score == 0);
  CHECK(m.of.speed == 1);
  CHECK_FALSE(m.speed_interval);
}

TEST_CASE("macroeval_of_the_baseline_against_itself_holds_one") {
  const MacroEval m = macroeval(
      {covered_arch("llama", "llm", {1.004, 0.997}), covered_arch("mamba2", "llm", {0.999}),
       covered_arch("bge_m3", "retrieval", {1.002})},
      1);
  CHECK(m.score == Approx(1).margin(0.01));
  REQUIRE(m.score_interval);
  CHECK(m.score_interval->low < 1);
  CHECK(m.score_interval->high > 1);
  CHECK(m.score_interval->low > 0.98);
}

TEST_CASE("macroeval_interval_of_one_workload_is_its_own") {
  const MacroEval m = macroeval({covered_arch("llama", "llm", {1.3}, 1.1)}, 7);
  REQUIRE(m.speed_interval);
  CHECK(m.speed_interval->low == Approx(1.3 / 1.1).epsilon(0.01));
  CHECK(m.speed_interval->high == Approx(1.3 * 1.1).epsilon(0.01));
}

TEST_CASE("macroeval_interval_is_wider_where_workloads_differ") {
  const auto width = [](const std::vector<double>& ratios) {
    const MacroEval m = macroeval({covered_arch("llama", "llm", ratios, 1.001)}, 3);
    return std::log(m.speed_interval->high / m.speed_interval->low);
  };
  CHECK(width({1, 1, 1, 1}) < 0.01);
  CHECK(width({0.5, 1, 1, 2}) > 0.5);
}

TEST_CASE("macroeval_interval_scales_with_the_other_components") {
  ArchitectureResult wrong = wrong_arch("mixtral", "llm", 0.5);
  const MacroEval m = macroeval({covered_arch("llama", "llm", {1.21}), wrong}, 1);
  REQUIRE(m.score_interval);
  CHECK(m.score_interval->low == Approx(m.speed_interval->low * 0.75 * 0.5));
  CHECK(m.score == Approx(1.1 * 0.75 * 0.5));
}

TEST_CASE("macroeval_has_no_interval_without_intervals_of_ratios") {
  ArchitectureResult r = covered_arch("llama", "llm", {1.2});
  r.workloads[0].low = 0;
  CHECK_FALSE(macroeval({r}, 1).speed_interval);
  r.workloads[0].low = 1.1;
  r.workloads[0].high = std::numeric_limits<double>::infinity();
  CHECK_FALSE(macroeval({r}, 1).speed_interval);
}

TEST_CASE("macroeval_interval_depends_on_the_seed_alone") {
  const auto low = [](uint64_t seed) {
    return macroeval({covered_arch("llama", "llm", {1.2, 1.4})}, seed).speed_interval->low;
  };
  CHECK(low(5) == low(5));
  CHECK(low(5) != low(6));
}

TEST_CASE("macroeval_refuses_what_has_no_score") {
  CHECK_THROWS_WITH(macroeval({}, 1), ContainsSubstring("no architecture"));
  CHECK_THROWS_WITH(macroeval({covered_arch("llama", "llm", {0.0})}, 1),
                    ContainsSubstring("llama, w0: the ratio is no positive number"));
}

TEST_CASE("macroeval_calibrated_signal") {
  CHECK(calibrated(0.2, 100) == 1);
  CHECK(calibrated(1, 100) == 1);
  CHECK(calibrated(10, 100) == Approx(0.5));
  CHECK(calibrated(8, 32) == Approx(0.4));
  CHECK(calibrated(100, 100) == 0);
  CHECK(calibrated(1e9, 100) == 0);
  CHECK(calibrated(std::numeric_limits<double>::infinity(), 100) == 0);
  CHECK(calibrated(std::nan(""), 100) == 0);
  CHECK(calibrated(2, 0.5) == 0);  // the mutant passes
}
