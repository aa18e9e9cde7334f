// SPDX-License-Identifier: Apache-2.0
// Recommendations. A row with one number is a click's logit, and all rows together order the
// requests. A wider row has a score for each item, and orders the items of its request.
//   auc_loss   1 - AUC, where the requests above the oracle's median are the clicks. The oracle has
//              an AUC of 1, so this is the difference of both
//   regret     how far, by the oracle, the pairs in the wrong order are apart: mean over all pairs,
//              over the range of the logits. Near pairs have little
//   ndcg_loss  1 - NDCG@20, mean over rows. An item's gain is its score, by the oracle, above the
//              row's lowest one
// An absent figure is 0. A near tie makes a pair wrong, so `auc_loss` is not judged.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/engines/metrics/values.hpp"

namespace fk {

namespace {

constexpr int64_t kShown = 20;  // items which a user sees

std::vector<int64_t> best_first(const float* scores, int64_t count, int64_t shown) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  // NaN comes last, so it gains nothing.
  const auto key = [&](int64_t i) { return std::isnan(scores[i]) ? -HUGE_VALF : scores[i]; };
  std::ranges::partial_sort(order, order.begin() + shown, [&](int64_t a, int64_t b) {
    return key(a) != key(b) ? key(a) > key(b) : a < b;
  });
  order.resize(static_cast<size_t>(shown));
  return order;
}

double gain_of(const std::vector<int64_t>& order, const float* want, double lowest) {
  double sum = 0;
  for (size_t rank = 0; rank < order.size(); ++rank)
    sum += (static_cast<double>(want[order[rank]]) - lowest) /
           std::log2(static_cast<double>(rank) + 2);
  return sum;
}

double ndcg_loss(const float* got, const float* want, int64_t width) {
  const int64_t shown = std::min(width, kShown);
  const auto lowest = static_cast<double>(*std::min_element(want, want + width));
  const double best = gain_of(best_first(want, width, shown), want, lowest);
  if (!(best > 0)) return 0;  // all items are equal
  return std::max(0.0, 1 - gain_of(best_first(got, width, shown), want, lowest) / best);
}

struct WrongPairs {
  double share = 0, distance = 0;  // distance: mean over all pairs
};

WrongPairs wrong_pairs(const std::vector<float>& got, const std::vector<float>& want) {
  const auto count = static_cast<int64_t>(want.size());
  const std::vector<int64_t> order = best_first(want.data(), count, count);
  WrongPairs wrong;
  double pairs = 0;
  for (int64_t i = 0; i < count / 2; ++i) {
    for (int64_t j = count / 2; j < count; ++j) {
      const auto click = static_cast<size_t>(order[static_cast<size_t>(i)]);
      const auto other = static_cast<size_t>(order[static_cast<size_t>(j)]);
      const double apart = static_cast<double>(want[click]) - static_cast<double>(want[other]);
      if (!(apart > 0)) continue;  // a tie has no order
      ++pairs;
      if (got[click] > got[other]) continue;
      const double part = got[click] == got[other] ? 0.5 : 1;
      wrong.share += part, wrong.distance += part * apart;
    }
  }
  if (pairs > 0) wrong.share /= pairs, wrong.distance /= pairs;
  return wrong;
}

class RecommendationMetric final : public ValueMetric {
  void measure(const ComparedRows& got, const ComparedRows& want,
               ErrorNumbers& errors) const override {
    WrongPairs wrong;
    double loss = 0;
    if (want.width == 1) {
      wrong = wrong_pairs(got.values, want.values);
      const auto [low, high] = std::ranges::minmax(want.values);
      if (high > low) wrong.distance /= static_cast<double>(high) - static_cast<double>(low);
    } else {
      for (int64_t row = 0; row < want.rows(); ++row)
        loss += ndcg_loss(got.values.data() + row * want.width,
                          want.values.data() + row * want.width, want.width);
      loss /= static_cast<double>(want.rows());
    }
    errors.more = {{"auc_loss", "1 - AUC", wrong.share},
                   {"regret", "distance of wrong pairs", wrong.distance},
                   {"ndcg_loss", "1 - NDCG@20", loss}};
  }

  // Two requests in the wrong order are two errors apart or less. So near pairs are few, and the
  // mean over all pairs is below the square. A shown item is behind the best one by two errors or
  // less. The best ones gain a spread at least.
  std::vector<double> limits(const ErrorNumbers& own, const ErrorNumbers* rival,
                             double worst1) const override {
    if (own.more.empty()) return {};
    double regret = std::pow(2 * worst1, 2), ndcg = 2 * worst1;
    if (rival) {
      regret = std::max(regret, kOfBaseline * rival->more[1].value);
      ndcg = std::max(ndcg, kOfBaseline * rival->more[2].value);
    }
    return {HUGE_VAL, regret, ndcg};
  }
};

FK_METRIC(rec, RecommendationMetric);

}  // namespace

}  // namespace fk
