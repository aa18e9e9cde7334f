// SPDX-License-Identifier: Apache-2.0
#include "core/scenario/run_report.hpp"
#include "test/catch.hpp"

TEST_CASE("a run that a candidate has spoiled is its failure and not the environment's") {
  fk::RunReport report;
  CHECK(report.exit_code() == 0);
  report.candidates.resize(1);
  report.candidates[0].verdict = "correct";
  CHECK(report.exit_code() == 0);
  report.error = "the baseline: it ended";
  CHECK(report.exit_code() == 3);
  report.candidates[0].verdict = "violation";
  CHECK(report.exit_code() == 3);
  report.spoiled = true;
  report.error = "mine: it wrote to the weights, which are read only";
  CHECK(report.exit_code() == 1);
}
