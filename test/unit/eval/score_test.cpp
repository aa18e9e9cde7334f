// SPDX-License-Identifier: Apache-2.0
// From rows to the score: scenarios of one architecture count together, and a signed evaluation
// cannot be edited.
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/eval/evaluation.hpp"
#include "test/catch.hpp"

using namespace fk;

namespace {

EvalModel scored_model(const std::string& scenario, const std::string& arch,
                       const std::vector<double>& ratios) {
  EvalModel m;
  m.scenario = scenario, m.arch = arch, m.family = "llm", m.mode = "captured";
  m.takes_effect = m.passes = true;
  m.signal = 1;
  for (const double ratio : ratios) {
    EvalWorkload w;
    w.workload = "w", w.kind = "latency", w.ratio = ratio, w.low = ratio / 1.01,
    w.high = ratio * 1.01;
    m.workloads.push_back(w);
  }
  return m;
}

EvalCase judged_case(int level, bool right, std::optional<double> ratio) {
  EvalCase c;
  c.level = level, c.right = right, c.judged = true, c.ratio = ratio;
  return c;
}

Evaluation complete_evaluation() {
  Evaluation e;
  e.complete = true;
  e.seed = 1;
  e.models = {scored_model("a", "llama", {2}), scored_model("b", "llama", {0.5, 2})};
  e.cases = {judged_case(1, true, 2.0), judged_case(1, true, 0.5), judged_case(2, false, {}),
             judged_case(2, true, {})};
  score(e);
  return e;
}

}  // namespace

TEST_CASE("score_joins_scenarios_of_an_architecture") {
  const Evaluation e = complete_evaluation();
  CHECK(e.score.value == Approx(std::cbrt(2 * 0.5 * 2)));
  CHECK(e.components.coverage == 1);
  CHECK(e.score.low.value() < e.score.value);
}

TEST_CASE("score_of_an_architecture_is_that_of_its_worst_scenario") {
  Evaluation e = complete_evaluation();
  e.models[1].passes = false;
  e.models[1].signal = 0.25;
  score(e);
  CHECK(e.components.speed == 1);
  CHECK(e.components.correctness == 0.25);
  CHECK(e.score.value == 0);
}

TEST_CASE("score_leaves_an_eager_run_out") {
  Evaluation e = complete_evaluation();
  e.models.push_back(scored_model("a", "llama", {100}));
  e.models.back().scored = false;
  const double before = e.score.value;
  score(e);
  CHECK(e.score.value == before);
}

TEST_CASE("score_fast_p_and_levels") {
  const Evaluation e = complete_evaluation();
  const auto share = [&](double p) {
    for (const auto& f : e.fast_p)
      if (f.p == p) return f.share;
    return -1.0;
  };
  CHECK(share(0) == 0.75);  // right, whether timed or not
  CHECK(share(0.8) == 0.25);
  CHECK(share(2) == 0);  // faster than p, not as fast
  REQUIRE(e.levels.size() == 3);
  CHECK(e.levels[0].cases == 4);
  CHECK(e.levels[1].ratio == Approx(1));
  CHECK(e.levels[2].right == 1);
  CHECK_FALSE(e.levels[2].ratio);
}

TEST_CASE("score_needs_every_job") {
  Evaluation e = complete_evaluation();
  e.complete = false;
  score(e);
  CHECK(e.score.value == 0);
  CHECK(e.families.empty());
}

TEST_CASE("score_of_an_edited_evaluation_is_refused") {
  Evaluation e = complete_evaluation();
  std::string unverified;
  const Json document = signed_evaluation(e, nullptr, "no key");
  CHECK(read_evaluation(document, "e", unverified).score.value == Approx(e.score.value));
  CHECK(unverified == "no key");
  Json other = document;
  other["author"] = "somebody else";
  CHECK_THROWS_WITH(read_evaluation(other, "e", unverified),
                    ContainsSubstring("the id does not match"));
  // With a new id, the score must still follow from the rows.
  Evaluation better = e;
  better.score.value *= 2;
  CHECK_THROWS_WITH(read_evaluation(signed_evaluation(better, nullptr, ""), "e", unverified),
                    ContainsSubstring("contradicts itself"));
}
