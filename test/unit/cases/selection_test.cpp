// SPDX-License-Identifier: Apache-2.0
// Choices by scores: a near tie may go either way, no more.
#include "core/cases/selection.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/paths.hpp"
#include "core/cases/comparison.hpp"
#include "test/catch.hpp"

namespace {

using fk::DType;
using fk::Tensor;

const char* kPick = R"yaml(op: pick
revision: 1
summary: scores and the best of them
axes: {B: rows, V: columns, C: channels}
init:
  - {name: columns, type: int, axis: V}
  - {name: size, type: int, axis: C}
forward:
  - {name: ids, role: in, shape: [B], dtype: [i64], values: "arange"}
  - {name: scores, role: out, shape: [B, V], dtype: [f32]}
  - {name: best, role: out, shape: [B], dtype: [i64]}
tolerance: {numerics: selection, length: C}
cases:
  smoke:
    - {B: 3, columns: 4, size: 64}
)yaml";

Tensor made(DType type, fk::Shape shape, const std::vector<double>& values) {
  Tensor t(type, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) t.set(static_cast<int64_t>(i), values[i]);
  return t;
}

}  // namespace

TEST_CASE("selection_by_computed_scores_forgives_ties_within_their_tolerance") {
  const auto c = fk::Contract::parse(kPick, "pick.yaml", 1, "test");
  const auto r = fk::resolve(c, c.cases[0], {});
  fk::CaseValues want;
  // A tie within float32's error of sums, a clear winner, an exact tie.
  want["scores"] = {made(DType::f32, {3, 4}, {1, 1 + 1e-6, -1, 0, 2, 1, 0, -1, 0.5, -1, 0.5, 0})};
  want["best"] = {made(DType::i64, {3}, {1, 0, 0})};
  const Tensor got = made(DType::i64, {3}, {0, 1, 2});
  const auto ask = [](const fk::CaseValues&) { return fk::CaseValues{}; };
  const auto equal = fk::equally_right(r, *r.find("best"), got, want, {}, ask);
  CHECK(equal == std::vector<uint8_t>{1, 0, 1});
  const Tensor outside = made(DType::i64, {3}, {4, -1, 1});
  CHECK(fk::equally_right(r, *r.find("best"), outside, want, {}, ask) ==
        std::vector<uint8_t>{0, 0, 0});
}

// Among scores that float32 cannot tell apart some are the same number. Those have an order among
// themselves, whichever of the others are chosen beside them.
TEST_CASE("selection_of_several_keeps_the_order_of_equal_scores_beside_near_ones") {
  const auto c = fk::Contract::parse(
      "op: several\nrevision: 1\nsummary: the best columns\naxes: {B: rows, V: columns, K: "
      "chosen}\n"
      "init:\n  - {name: columns, type: int, axis: V}\n  - {name: chosen, type: int, axis: K}\n"
      "forward:\n  - {name: scores, role: in, shape: [B, V], dtype: [f32]}\n"
      "  - {name: best, role: out, shape: [B, K], dtype: [i32]}\n"
      "tolerance: {numerics: selection}\n"
      "cases:\n  smoke:\n    - {B: 3, columns: 4, chosen: 2}\n",
      "several.yaml", 1, "test");
  const auto r = fk::resolve(c, c.cases[0], {});
  const std::vector<double> row = {-1e-42, 3e-45, -5e-43, 3e-45};
  fk::CaseValues values, want;
  values["scores"] = {Tensor(DType::f32, {3, 4})};
  for (int64_t i = 0; i < 12; ++i) values["scores"][0].set(i, row[static_cast<size_t>(i % 4)]);
  want["best"] = {made(DType::i32, {3, 2}, {0, 1, 0, 1, 0, 1})};
  const auto ask = [](const fk::CaseValues&) { return fk::CaseValues{}; };
  // The best two in order; only the last of equals; one of them twice.
  const Tensor got = made(DType::i32, {3, 2}, {1, 3, 0, 3, 1, 1});
  CHECK(fk::equally_right(r, *r.find("best"), got, want, values, ask) ==
        std::vector<uint8_t>{1, 1, 0, 0, 0, 0});
}

// A bias chooses and is no part of the weight: of near ties each has its own weight.
TEST_CASE("selection_of_near_ties_has_the_weight_of_what_was_chosen") {
  const auto c = fk::Contract::parse(
      "op: biased\nrevision: 1\nsummary: the best column\naxes: {B: rows, V: columns, K: chosen}\n"
      "init:\n  - {name: columns, type: int, axis: V}\n  - {name: chosen, type: int, axis: K}\n"
      "weights:\n  - {name: bias, shape: [V], dtype: [f32]}\n"
      "forward:\n  - {name: logits, role: in, shape: [B, V], dtype: [f32]}\n"
      "  - {name: weights, role: out, shape: [B, K], dtype: [f32]}\n"
      "  - {name: best, role: out, shape: [B, K], dtype: [i32]}\n"
      "tolerance: {numerics: selection}\n"
      "cases:\n  smoke:\n    - {B: 2, columns: 4, chosen: 1}\n",
      "biased.yaml", 1, "test");
  const auto r = fk::resolve(c, c.cases[0], {});
  const auto score = [](double logit) { return 1 / (1 + std::exp(-logit)); };
  const auto answer = [&](const fk::CaseValues& values) {
    const Tensor &logits = values.at("logits")[0], &bias = values.at("bias")[0];
    fk::CaseValues out;
    out["weights"] = {Tensor(DType::f32, {2, 1})};
    out["best"] = {Tensor(DType::i32, {2, 1})};
    for (int64_t row = 0; row < 2; ++row) {
      int64_t best = 0;
      const auto key = [&](int64_t e) { return score(logits.at(row * 4 + e)) + bias.at(e); };
      for (int64_t e = 1; e < 4; ++e)
        if (key(e) > key(best)) best = e;
      out["best"][0].set(row, static_cast<double>(best));
      out["weights"][0].set(row, score(logits.at(row * 4 + best)));
    }
    return out;
  };
  fk::CaseValues values;
  // In the first row columns 0 and 1 tie but for rounding, in the second column 3 is best.
  values["logits"] = {made(DType::f32, {2, 4}, {1, 1.5, 0, -1, 1, 0, 0.5, 3})};
  values["bias"] = {made(DType::f32, {4}, {0.1, 0.1 + score(1) - score(1.5), 0, 0.01})};
  const fk::CaseValues want = answer(values);
  const auto judged = [&](int first, double weight, int second) {
    fk::CaseValues got = want;
    got["best"][0].set(0, first), got["weights"][0].set(0, weight), got["best"][0].set(1, second);
    return fk::compare_outputs(r, values, got, want, fk::kMostElements, answer);
  };
  CHECK(judged(0, score(1), 3).ok);
  CHECK(judged(1, score(1.5), 3).ok);
  CHECK(judged(0, score(1.5), 3).field == "weights");
  CHECK(judged(1, score(1), 3).field == "weights");
  CHECK(judged(2, score(0), 3).field == "best");
  CHECK(judged(0, score(1), 0).field == "best");
}

// Factors of experts: logits below the smallest normal number have equal probabilities, and the
// weights of their experts differ. A choice in float32 by probability is as right as the exact one,
// with its own factor.
TEST_CASE("selection_with_factors_of_experts_has_the_factor_of_the_chosen_expert") {
  const fk::Catalog catalog(fk::paths::registry_dirs());
  const fk::Contract& c = catalog.at("topk_softmax");
  fk::Variant variant;
  variant.with = {{"expert_scale"}};
  variant.axes["T"] = 2;
  const auto r = fk::resolve(c, c.cases[0], variant);  // 2 of 8 experts
  const auto answer = [](const fk::CaseValues& values, bool by_logits) {
    const Tensor &logits = values.at("logits")[0], &scale = values.at("expert_scale")[0];
    fk::CaseValues out;
    out["topk_weights"] = {Tensor(DType::f32, {2, 2})};
    out["topk_ids"] = {Tensor(DType::i32, {2, 2})};
    for (int64_t row = 0; row < 2; ++row) {
      const auto logit = [&](int64_t e) { return logits.at(row * 8 + e); };
      double most = -HUGE_VAL, sum = 0;
      for (int64_t e = 0; e < 8; ++e) most = std::max(most, logit(e));
      std::vector<int64_t> ids;
      for (int64_t k = 0; k < 2; ++k) {
        int64_t best = -1;
        const auto key = [&](int64_t e) {
          return by_logits ? logit(e) : std::exp(logit(e) - most);
        };
        for (int64_t e = 0; e < 8; ++e)
          if (std::find(ids.begin(), ids.end(), e) == ids.end() && (best < 0 || key(e) > key(best)))
            best = e;
        ids.push_back(best);
        sum += std::exp(logit(best) - most);
      }
      for (size_t k = 0; k < 2; ++k) {
        const auto at = row * 2 + static_cast<int64_t>(k);
        out["topk_ids"][0].set(at, static_cast<double>(ids[k]));
        out["topk_weights"][0].set(at, std::exp(logit(ids[k]) - most) / sum * scale.at(ids[k]));
      }
    }
    return out;
  };
  const auto ask = [&](const fk::CaseValues& values) { return answer(values, true); };
  fk::CaseValues values;
  values["logits"] = {made(DType::f32, {2, 8},
                           {1, -1, 2e-40, 0, -3, 5e-40, -2, -1,  //
                            4, -1, 2, 0, -3, 1, -2, -1})};
  values["expert_scale"] = {made(DType::f32, {8}, {0.5, 0.6, 0.7, 0.8, 0.9, 1.1, 1.2, 1.3})};
  const fk::CaseValues want = answer(values, true), got = answer(values, false);
  CHECK(want.at("topk_ids")[0].at(1) == 5);
  CHECK(got.at("topk_ids")[0].at(1) == 2);
  const auto judged = [&](const fk::CaseValues& mine) {
    return fk::compare_outputs(r, values, mine, want, fk::kMostElements, ask);
  };
  CHECK(judged(want).ok);
  CHECK(judged(got).ok);
  // The factor of another expert than the chosen one, in both directions.
  fk::CaseValues other = got;
  other["topk_weights"] = want.at("topk_weights");
  CHECK(judged(other).field == "topk_weights");
  other = want;
  other["topk_weights"] = got.at("topk_weights");
  CHECK(judged(other).field == "topk_weights");
  // A plainly worse expert with its own factor.
  other = got;
  other["topk_ids"][0].set(3, 5);
  CHECK(judged(other).field == "topk_ids");
}

// If float32 has 1 for several logits, the first groups are as right as the best ones. Then the
// experts chosen behind them are another group's.
TEST_CASE("selection_of_groups_by_scores_that_float32_has_equal_may_be_any_of_them") {
  const fk::Catalog catalog(fk::paths::registry_dirs());
  const fk::Contract& c = catalog.at("grouped_topk");
  const auto plain = std::find_if(c.cases.begin(), c.cases.end(),
                                  [](const fk::Case& one) { return one.name == "ties"; });
  REQUIRE(plain != c.cases.end());
  fk::Variant fewer;
  fewer.axes["T"] = 1;
  const auto r = fk::resolve(c, *plain, fewer);  // 3 of 8 experts, of the 2 best of 4 groups
  const auto score = [](double logit) { return 1 / (1 + std::exp(-logit)); };
  const auto answer = [&](const fk::CaseValues& values) {
    const Tensor& logits = values.at("logits")[0];
    std::vector<double> left(8), best(4);
    for (int64_t e = 0; e < 8; ++e) left[static_cast<size_t>(e)] = score(logits.at(e));
    for (size_t g = 0; g < 4; ++g) best[g] = std::max(left[2 * g], left[2 * g + 1]);
    for (int i = 0; i < 2; ++i) {
      const auto worst = std::min_element(best.rbegin(), best.rend());  // of equal ones the last
      const auto g = static_cast<size_t>(best.rend() - worst - 1);
      best[g] = 2, left[2 * g] = left[2 * g + 1] = -1;
    }
    fk::CaseValues out;
    out["topk_weights"] = {Tensor(DType::f32, {1, 3})};
    out["topk_ids"] = {Tensor(DType::i32, {1, 3})};
    double sum = 0;
    for (int64_t k = 0; k < 3; ++k) {
      const auto at = std::max_element(left.begin(), left.end());
      out["topk_ids"][0].set(k, static_cast<double>(at - left.begin()));
      out["topk_weights"][0].set(k, *at);
      sum += *at, *at = -1;
    }
    for (int64_t k = 0; k < 3; ++k)
      out["topk_weights"][0].set(k, out["topk_weights"][0].at(k) / sum);
    return out;
  };
  fk::CaseValues values;
  values["logits"] = {made(DType::f32, {1, 8}, {31, 1.5, -20, 23, 32, 35, 8, -62})};
  const fk::CaseValues want = answer(values);
  const auto judged = [&](const std::vector<double>& ids, const std::vector<double>& scores) {
    fk::CaseValues got;
    got["topk_ids"] = {made(DType::i32, {1, 3}, ids)};
    double sum = 0;
    for (const double s : scores) sum += s;
    got["topk_weights"] = {
        made(DType::f32, {1, 3}, {scores[0] / sum, scores[1] / sum, scores[2] / sum})};
    return fk::compare_outputs(r, values, got, want, fk::kMostElements, answer);
  };
  CHECK(judged({5, 4, 0}, {1, 1, 1}).ok);
  CHECK(judged({0, 3, 1}, {1, 1, score(1.5)}).ok);
  CHECK(judged({0, 3, 1}, {1, 1, 1}).field == "topk_weights");
  CHECK(judged({0, 3, 2}, {1, 1, score(-20)}).field == "topk_ids");
  CHECK(judged({0, 6, 1}, {1, score(8), score(1.5)}).field == "topk_ids");
}
