// SPDX-License-Identifier: Apache-2.0
// The rule of correctness: noise like the baseline's passes, more does not, NaN and gaps never do.
#include "core/scenario/model_verdict.hpp"
#include "core/scenario/run_report.hpp"

#include "core/scenario/workload_result.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/engines/generate/engine.hpp"
#include "core/engines/masked_diffusion/engine.hpp"
#include "core/tensor/random.hpp"
#include "test/catch.hpp"

using namespace fk;

namespace {

constexpr int64_t kPositions = 50, kVocabulary = 64;

const Metric& logits_metric() { return *find_metric("logits"); }

ErrorNumbers compare_rounds(const Round& got, const Round& want, bool routed) {
  return logits_metric().compare(got.requests, want.requests, routed);
}

ErrorLimits error_limits(const ErrorNumbers& baseline, DType dtype, int64_t layers,
                         double coarse = 0) {
  return logits_metric().candidate_limits(baseline, {dtype, layers, 0, coarse});
}

ErrorLimits baseline_limits(const ErrorNumbers& baseline, double limit, double coarse,
                            DType dtype) {
  return logits_metric().baseline_limits(baseline, {dtype, 1, limit, coarse});
}

Round round_with(double noise, uint64_t seed) {
  Random values(1), errors(seed);
  Round round;
  RequestResult& r = round.requests[1];
  for (int64_t p = 0; p < kPositions; ++p) {
    std::vector<float> logits;
    for (int64_t v = 0; v < kVocabulary; ++v)
      logits.push_back(static_cast<float>(values.normal() + noise * errors.normal()));
    r.logits[p] = logits;
  }
  return round;
}

}  // namespace

TEST_CASE("model_verdict_noise_like_the_baselines_passes") {
  const Round want = round_with(0, 2);
  const auto baseline = compare_rounds(round_with(0.01, 3), want, false);
  CHECK(baseline.rms == Approx(0.01).epsilon(0.1));
  const auto limits = error_limits(baseline, DType::bf16, 1);
  CHECK(judge_errors(compare_rounds(round_with(0.012, 4), want, false), limits).empty());
  CHECK_FALSE(judge_errors(compare_rounds(round_with(0.02, 5), want, false), limits).empty());
}

TEST_CASE("model_verdict_floor_is_not_stricter_than_rounding") {
  const auto limits = error_limits(ErrorNumbers{}, DType::bf16, 15);
  CHECK(limits.rms == Approx(0.0078125));  // epsilon / 4 * sqrt(16)
  CHECK(error_limits(ErrorNumbers{}, DType::f32, 15).rms == Approx(1e-5));
}

// In float32, with activations rounded to eight bits: one input of a token may round to another
// number. Then all later tokens differ, by chance on either side. Earlier tokens do not.
TEST_CASE("model_verdict_a_few_roundings_to_eight_bits_are_no_error_of_float32") {
  constexpr double kCoarse = 0.3, kLimit = 1e-4;
  const Round want = round_with(0, 2);
  const auto after = [&](int64_t first, double before, double noise) {
    Round round = round_with(noise, 3);
    const Round exact = round_with(before, 4);
    for (int64_t p = 0; p < first; ++p)
      round.requests[1].logits[p] = exact.requests.at(1).logits.at(p);
    return compare_rounds(round, want, false);
  };
  const auto of_baseline = [&](const ErrorNumbers& e) {
    return judge_errors(e, baseline_limits(e, kLimit, kCoarse, DType::f32));
  };
  const ErrorNumbers lucky = after(kPositions, 1e-7, 0), moved = after(4, 1e-7, 0.1);
  CHECK(of_baseline(lucky).empty());
  CHECK(of_baseline(moved).empty());
  CHECK_FALSE(of_baseline(after(4, 1e-7, 0.5)).empty());
  CHECK_FALSE(of_baseline(after(4, 1e-3, 0.1)).empty());
  CHECK_FALSE(of_baseline(after(0, 0, 0.1)).empty());
  for (const auto& baseline : {lucky, moved}) {
    const auto limits = error_limits(baseline, DType::f32, 2, kCoarse);
    CHECK(judge_errors(moved, limits).empty());
    CHECK_FALSE(judge_errors(after(0, 0, 1e-4), limits).empty());
    CHECK_FALSE(judge_errors(after(4, 1e-4, 0.1), limits).empty());
  }
  // Without eight bits there is no such excuse, and 16 bits have another one.
  CHECK_FALSE(judge_errors(moved, baseline_limits(moved, kLimit, 0, DType::f32)).empty());
  CHECK_FALSE(judge_errors(moved, error_limits(lucky, DType::f32, 2)).empty());
  CHECK(baseline_limits(moved, kLimit, kCoarse, DType::bf16).best5 == 0);
}

TEST_CASE("an error as a multiple of its limit is above 1 where it is too large") {
  const ErrorLimits limits{0.1, 0.4, 10, 0.01};
  const auto quotient = [&](double rms, double worst1, double best5, int64_t rerouted) {
    ErrorNumbers e;
    e.rms = rms, e.worst1 = worst1, e.best5 = best5, e.rerouted = rerouted;
    const double value = of_allowed(e, limits);
    CHECK((value > 1) == !judge_errors(e, limits).empty());
    return value;
  };
  CHECK(quotient(0, 0, 0, 0) == 0);
  CHECK(quotient(0.05, 0.1, 0, 0) == Approx(0.5));
  CHECK(quotient(0.1, 0.4, 0.01, 10) == Approx(1));
  CHECK(quotient(0.3, 0.1, 0, 0) == Approx(3));
  CHECK(quotient(0.1, 0.8, 0, 0) == Approx(2));
  CHECK(quotient(0.1, 0.4, 0.05, 0) == Approx(5));
  CHECK(quotient(0.1, 0.4, 0, 40) == Approx(4));
  CHECK(std::isinf(quotient(std::nan(""), 0, 0, 0)));
  ErrorNumbers missing;
  missing.wrong = "a result is missing";
  CHECK(std::isinf(of_allowed(missing, limits)));
  // The better of the two answers without work counts: the mean, where all values are about 3.
  Round round = round_with(0, 2);
  for (auto& [position, logits] : round.requests[1].logits)
    for (float& value : logits) value = value * 0.1F + 3;
  const NullAnswer best = best_null_answer(round, limits, false, logits_metric());
  CHECK(best.value == Approx(3).margin(0.2));
  CHECK(best.of_allowed > 1);
}

TEST_CASE("answers that are all alike tell nothing") {
  const auto told = [](const Round& want, double noise = 0) {
    ErrorNumbers baseline;
    baseline.rms = baseline.worst1 = noise;
    return untestable(
        best_null_answer(want, error_limits(baseline, DType::f32, 2), false, logits_metric()));
  };
  const auto scaled = [](float factor, float offset) {
    Round round = round_with(0, 2);
    for (auto& [position, logits] : round.requests[1].logits)
      for (float& value : logits) value = value * factor + offset;
    return round;
  };
  CHECK(told(round_with(0, 2)).empty());
  CHECK(told(scaled(1e-3F, 100)).empty());  // what differs is little, and is what is judged
  CHECK_THAT(told(scaled(0, 0)), ContainsSubstring("zeros would pass"));
  CHECK_THAT(told(scaled(0, 3)), ContainsSubstring("3 everywhere would pass"));
  // A baseline that is as far off as zeros are.
  CHECK_THAT(told(round_with(0, 2), 2), ContainsSubstring("zeros would pass"));
}

TEST_CASE("model_verdict_nan_and_gaps_are_wrong") {
  const Round want = round_with(0, 2);
  const ErrorLimits limits{1, 1, 0};
  Round got = round_with(0, 2);
  CHECK(judge_errors(compare_rounds(got, want, false), limits).empty());
  got.requests[1].logits[3][5] = std::numeric_limits<float>::quiet_NaN();
  CHECK_FALSE(judge_errors(compare_rounds(got, want, false), limits).empty());
  got.requests[1].logits.erase(3);
  CHECK_FALSE(judge_errors(compare_rounds(got, want, false), limits).empty());
  CHECK_FALSE(judge_errors(compare_rounds(Round{}, want, false), limits).empty());
}

TEST_CASE("model_verdict_rerouted_tokens_are_counted") {
  const Round want = round_with(0, 2);
  Round got = round_with(0.01, 3);
  for (auto& v : got.requests[1].logits[7]) v += 2;
  const auto errors = compare_rounds(got, want, true);
  CHECK(errors.rerouted == 1);
  CHECK(errors.rms < 0.02);
  const ErrorLimits none{1, 1, 0}, one{1, 1, 1};
  CHECK_FALSE(judge_errors(errors, none).empty());
  CHECK(judge_errors(errors, one).empty());
}

TEST_CASE("model_verdict_audit_finds_tokens_that_do_not_follow") {
  Round timed, oracle = round_with(0, 2);
  RequestResult& got = timed.requests[1];
  got.request.tokens = {1};
  got.request.new_tokens = 4;
  for (int64_t p = 0; p < 4; ++p) {
    const auto& logits = oracle.requests[1].logits[p];
    got.tokens.push_back(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  oracle.requests[1].request = got.request;
  got.request.id = 1;
  const ErrorLimits limits{1e-5, 3e-5, 0, 0, {}};
  Scenario scenario(Config(Json::object(), "test"));
  scenario.engine = fk::generate_engine({.vocabulary = kVocabulary});
  scenario.metric = &logits_metric();
  CHECK(audit(timed, oracle, 1e-4, limits, false, scenario).empty());
  got.tokens[2] = (got.tokens[2] + 1) % kVocabulary;
  CHECK_THAT(audit(timed, oracle, 1e-4, limits, false, scenario),
             ContainsSubstring("token 2 of request 1"));
}

TEST_CASE("an audit looks at what is furthest apart from the baseline's answers") {
  RequestResult same, late, early, wrong, right;
  same.tokens = right.tokens = {1, 2, 3};
  late.tokens = {1, 2, 4};
  early.tokens = {2, 2, 3};
  CHECK(apart(same, right) == 0);
  CHECK(apart(late, right) > 0);
  CHECK(apart(early, right) > apart(late, right));
  right.tensors = {{"x", {3}, {1, 2, 4}}};
  wrong = right;
  CHECK(apart(wrong, right) == 0);
  wrong.tensors[0].values[1] = 3;
  CHECK(apart(wrong, right) == 0.25);
  wrong.tensors[0].values[1] = NAN;
  CHECK(apart(wrong, right) == 1);

  Round timed;
  for (uint64_t id = 1; id <= 100; ++id) timed.requests[id].request.id = id;
  timed.requests[77].apart = 0.5;
  timed.requests[33].apart = 1;
  timed.requests[55].apart = 0.1;
  for (uint64_t seed = 1; seed < 5; ++seed) {
    const auto list = audit_requests(timed, 4, seed, *fk::generate_engine({}));
    REQUIRE(list.size() == 4);
    CHECK(list[0].id == 33);
    CHECK(list[1].id == 77);
  }
}

TEST_CASE("an audit scores an answer as part of its prompt where a model predicts the next token") {
  Round timed;
  RequestResult& got = timed.requests[1];
  got.request.id = 1;
  got.request.tokens = {5, 6, 7};
  got.request.new_tokens = 3;
  got.tokens = {1, 2, 3};
  got.order = {0, 1, 2};
  const auto scored = fk::audit_requests(timed, 4, 1, *fk::generate_engine({}));
  REQUIRE(scored.size() == 1);
  CHECK(scored[0].tokens == std::vector<int64_t>{5, 6, 7, 1, 2});
  CHECK(scored[0].new_tokens == 0);
  CHECK(scored[0].prompt_logits);
  CHECK(scored[0].first_logits == 2);
  const auto forced = fk::audit_requests(timed, 4, 1, *fk::masked_diffusion_engine({}));
  REQUIRE(forced.size() == 1);
  CHECK(forced[0].tokens == got.request.tokens);
  CHECK(forced[0].forced == got.tokens);
  CHECK(forced[0].order == got.order);
  CHECK(forced[0].logits);
  CHECK(forced[0].new_tokens == 3);
}

TEST_CASE("models whose activations are rounded to eight bits have coarse logits") {
  const auto config = [](const char* text) {
    return fk::Config(fk::Json::parse(text), "config.json");
  };
  const auto dynamic =
      config(R"({"quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic"}})");
  std::vector<fk::OpRow> ops(2);
  ops[0].op = "rms_norm", ops[1].op = "linear_fp8_block";
  CHECK(fk::coarse_limit(dynamic, 4, ops) == Approx(0.4));
  CHECK(fk::coarse_limit(config("{}"), 4, ops) == 0);
  CHECK(fk::coarse_limit(config(R"({"quantization_config": {"quant_method": "mxfp4"}})"), 4, ops) ==
        0);
  ops[1].op = "linear";  // the matrices became floats when they were read
  CHECK(fk::coarse_limit(dynamic, 4, ops) == 0);
}
