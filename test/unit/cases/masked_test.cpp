// SPDX-License-Identifier: Apache-2.0
// Logits that are masked, and routers that choose among weights of 0.
#include "core/cases/numerics/masked.hpp"

#include <algorithm>
#include <cmath>

#include "core/cases/comparison.hpp"
#include "core/cases/numerics/families.hpp"
#include "test/catch.hpp"
#include "test/unit/catalog.hpp"

namespace {

using fk::CaseValues;
using fk::Family;
using fk::Tensor;

// A router in double: its choice is by logits, as the reference's, or by float32 weights.
CaseValues routed(const fk::ResolvedCase& r, const CaseValues& values, bool by_weights) {
  const Tensor& logits = values.at("logits")[0];
  const int64_t rows = logits.shape[0], width = logits.shape[1], k = r.axes.at("K");
  CaseValues out;
  out["topk_weights"] = {Tensor(fk::DType::f32, {rows, k})};
  out["topk_ids"] = {Tensor(fk::DType::i32, {rows, k})};
  for (int64_t row = 0; row < rows; ++row) {
    double top = -HUGE_VAL, sum = 0, total = 0;
    for (int64_t e = 0; e < width; ++e) top = std::max(top, logits.at(row * width + e));
    std::vector<double> share(static_cast<size_t>(width));
    for (int64_t e = 0; e < width; ++e)
      sum += share[static_cast<size_t>(e)] = std::exp(logits.at(row * width + e) - top);
    std::vector<int64_t> order;
    for (int64_t e = 0; e < width; ++e) order.push_back(e);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      if (!by_weights) return logits.at(row * width + a) > logits.at(row * width + b);
      return static_cast<float>(share[static_cast<size_t>(a)] / sum) >
             static_cast<float>(share[static_cast<size_t>(b)] / sum);
    });
    for (int64_t i = 0; i < k; ++i) total += share[static_cast<size_t>(order[size_t(i)])];
    for (int64_t i = 0; i < k; ++i) {
      const int64_t e = order[static_cast<size_t>(i)];
      out["topk_ids"][0].set(row * k + i, static_cast<double>(e));
      out["topk_weights"][0].set(row * k + i, share[static_cast<size_t>(e)] / total);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("masked_logits_leave_as_many_as_are_chosen_and_fit_what_has_logits_alone") {
  int seen = 0, low = 0;
  for (const std::string op : {"topk_softmax", "grouped_topk", "sample_tokens", "token_logprob"}) {
    for (const fk::Case& source : catalog().at(op).cases) {
      if (source.size != "smoke") continue;
      CAPTURE(op, source.name);
      const auto r = fk::resolve(catalog().at(op), source, {});
      REQUIRE(fk::family_unfit(r, Family::masked).empty());
      const Tensor logits = fk::make_inputs(r, 5, 1, Family::masked).at("logits")[0];
      const auto chosen = r.axes.find("K");
      const int64_t least = chosen == r.axes.end() ? 1 : chosen->second, width = logits.shape[1];
      for (int64_t row = 0; row < logits.shape[0]; ++row) {
        int64_t left = 0;
        for (int64_t e = 0; e < width; ++e) {
          const double logit = logits.at(row * width + e);
          CHECK_FALSE((std::isnan(logit) || logit == HUGE_VAL));
          left += std::isfinite(logit);
          seen += std::isinf(logit);
          low += std::isfinite(logit) && logit < -1e5;
        }
        CHECK(left >= std::min(least, width));
      }
    }
  }
  CHECK(seen > 100);
  CHECK(low > 100);
  for (const std::string op : {"linear", "rms_norm", "decoder_layer"}) {
    const fk::Contract& c = catalog().at(op);
    CHECK_FALSE(fk::family_unfit(fk::resolve(c, c.cases[0], {}), Family::masked).empty());
  }
}

// With one logit far above the others their weights are 0 in float32.
TEST_CASE("choices_among_weights_that_float32_has_equal_may_be_any_and_others_not") {
  const fk::Contract& c = catalog().at("topk_softmax");
  const auto r = fk::resolve(c, c.cases[0], {});  // 2 of 8
  CaseValues values;
  values["logits"] = {Tensor(fk::DType::f32, {5, 8})};
  const double row[] = {0.5, 0.25, 110, 2, -1, 1.5, 0, -2};
  for (int64_t i = 0; i < 40; ++i) values["logits"][0].set(i, row[i % 8]);
  for (int64_t i = 32; i < 40; ++i)
    if (i % 8 == 2) values["logits"][0].set(i, 1.75);  // the last row has no such one
  const auto ask = [&](const CaseValues& other) { return routed(r, other, false); };
  const CaseValues want = routed(r, values, false), got = routed(r, values, true);
  CHECK(got.at("topk_ids")[0].at(1) == 0);
  CHECK(want.at("topk_ids")[0].at(1) == 3);
  const auto judged = [&](const CaseValues& answer) {
    return fk::compare_outputs(r, values, answer, want, fk::kMostElements, ask);
  };
  CHECK(judged(got).ok);
  CaseValues wrong = got;
  wrong["topk_ids"][0].set(0, 3);  // the one expert that has a weight
  CHECK(judged(wrong).field == "topk_ids");
  wrong = got;
  wrong["topk_ids"][0].set(9, 5);  // the third best where weights tell them apart
  CHECK(judged(wrong).field == "topk_ids");
  wrong = got;
  wrong["topk_ids"][0].set(1, 2);  // one expert twice
  CHECK(judged(wrong).field == "topk_ids");
}

// A mask of one token has no rounding: it is not as good as any other.
TEST_CASE("a_masked_token_is_wrong") {
  const fk::Contract& c = catalog().at("sample_tokens");
  const auto greedy = std::find_if(c.cases.begin(), c.cases.end(),
                                   [](const fk::Case& one) { return one.name == "greedy"; });
  REQUIRE(greedy != c.cases.end());
  const auto r = fk::resolve(c, *greedy, {});
  CaseValues values = fk::make_inputs(r, 3, 1);
  const Tensor& logits = values["logits"][0];
  CaseValues want;
  want["tokens"] = {Tensor(fk::DType::i64, {r.axes.at("B")})};
  for (int64_t b = 0; b < r.axes.at("B"); ++b) {
    values["logits"][0].set(b * logits.shape[1] + 7, -HUGE_VAL);
    values["logits"][0].set(b * logits.shape[1] + 9, 100);
    want["tokens"][0].set(b, 9);
  }
  const auto ask = [&](const CaseValues&) { return want; };
  CaseValues got = want;
  CHECK(fk::compare_outputs(r, values, got, want, fk::kMostElements, ask).ok);
  got["tokens"][0].set(1, 7);
  CHECK_FALSE(fk::compare_outputs(r, values, got, want, fk::kMostElements, ask).ok);
}
