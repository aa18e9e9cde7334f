// SPDX-License-Identifier: Apache-2.0
// Two evaluations beside each other: gains are quotients, their errors add up, and rows of one side
// alone stay visible.
#include "core/eval/comparison.hpp"

#include <cmath>

#include "test/catch.hpp"

using namespace fk;

namespace {

Evaluation compared_evaluation(const std::string& name, double ratio, double width) {
  Evaluation e;
  e.submission = e.id = name;
  e.suite = "mine", e.suite_sha256 = "1", e.device = "cpu";
  e.complete = true;
  e.components = {ratio, 1, 1};
  e.score = e.speed = {ratio, ratio / width, ratio * width};
  e.families = {{"llm", 1, 1, {ratio, 1, 1}}};
  EvalCase c;
  c.op = "rms_norm", c.case_name = "ci0", c.inputs = "generated", c.status = "faster";
  c.ratio = ratio, c.low = ratio / width, c.high = ratio * width;
  e.cases = {c};
  EvalModel m;
  m.scenario = "llama", m.mode = "captured", m.verdict = "correct";
  e.models = {m};
  return e;
}

}  // namespace

TEST_CASE("comparison_of_submissions_by_op_model_and_family") {
  Evaluation a = compared_evaluation("a", 1.0, 1.03), b = compared_evaluation("b", 1.5, 1.04);
  b.cases.push_back(b.cases[0]);
  b.cases[1].op = "gelu", b.cases[1].status = "wrong", b.cases[1].ratio.reset();
  b.driver = "other";
  const SubmissionComparison c = compare_evaluations(a, b);
  REQUIRE(c.cases.size() == 2);
  CHECK(*c.cases[0].gain == Approx(1.5));
  const double half = std::hypot(std::log(1.03), std::log(1.04));
  CHECK(*c.cases[0].low == Approx(1.5 * std::exp(-half)));
  CHECK(c.cases[0].answer == "better");
  CHECK(c.cases[1].a_status.empty());
  CHECK(c.cases[1].b_status == "wrong");
  CHECK_FALSE(c.cases[1].gain);
  CHECK(*c.families[0].gain == Approx(1.5));
  CHECK(c.families[0].answer.empty());  // no interval, no answer
  CHECK(c.models[0].what == "llama");
  REQUIRE(c.notes.size() == 1);
  CHECK_THAT(c.notes[0], ContainsSubstring("drivers differ"));
  CHECK(compare_evaluations(b, a).cases[0].answer == "worse");
  CHECK(compare_evaluations(a, compared_evaluation("c", 1.001, 1.005)).cases[0].answer ==
        "cannot tell");  // 3 % of the first's own error
}

TEST_CASE("comparison_refuses_what_cannot_be_compared") {
  Evaluation a = compared_evaluation("a", 1, 1.1), b = a;
  b.suite = "other";
  CHECK_THROWS_WITH(compare_evaluations(a, b), ContainsSubstring("suite"));
  b = a;
  b.complete = false;
  CHECK_THROWS_WITH(compare_evaluations(a, b), ContainsSubstring("not complete"));
}
