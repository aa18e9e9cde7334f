// SPDX-License-Identifier: Apache-2.0
// Classes. Beside the values of logits, this metric looks at the class that counts: over a thousand
// classes, one wrong logit is a small error.
//   kl          divergence of the probabilities from the oracle's, in nats, mean over rows
//   regret      logit of the oracle's class above that of the chosen class, by the oracle, as a
//   share
//               of the spread, mean over rows. An equal class has none, and a near one little
//   top1_other  share of rows with another class. Near ties of classes make it, so it is not judged
#include <algorithm>
#include <cmath>

#include "core/engines/metrics/values.hpp"

namespace fk {

namespace {

struct RowOfClasses {
  double kl = 0, lost = 0;  // lost: of the oracle's logit
  bool other = false;
};

double log_sum(const float* row, int64_t width) {
  const double top = static_cast<double>(*std::max_element(row, row + width));
  double sum = 0;
  for (int64_t i = 0; i < width; ++i) sum += std::exp(static_cast<double>(row[i]) - top);
  return top + std::log(sum);
}

RowOfClasses compare_classes(const float* got, const float* want, int64_t width) {
  RowOfClasses out;
  const double own = log_sum(got, width), theirs = log_sum(want, width);
  for (int64_t i = 0; i < width; ++i) {
    const double log_p = static_cast<double>(want[i]) - theirs;
    const double log_q = static_cast<double>(got[i]) - own;
    out.kl += std::exp(log_p) * (log_p - log_q);
  }
  const auto best = std::max_element(want, want + width) - want;
  const auto chosen = std::max_element(got, got + width) - got;
  out.kl = std::max(out.kl, 0.0);  // rounding
  out.lost = static_cast<double>(want[best]) - static_cast<double>(want[chosen]);
  out.other = best != chosen;
  return out;
}

double spread_of(const std::vector<float>& values) {
  double sum = 0, squares = 0;
  for (const float v : values) sum += static_cast<double>(v);
  const double mean = sum / static_cast<double>(values.size());
  for (const float v : values) squares += std::pow(static_cast<double>(v) - mean, 2);
  const double spread = std::sqrt(squares / static_cast<double>(values.size()));
  return spread > 0 ? spread : 1;
}

class ClassMetric final : public ValueMetric {
  void measure(const ComparedRows& got, const ComparedRows& want,
               ErrorNumbers& errors) const override {
    double kl = 0, lost = 0, other = 0;
    for (int64_t row = 0; row < want.rows(); ++row) {
      const int64_t at = row * want.width;
      const RowOfClasses r =
          compare_classes(got.values.data() + at, want.values.data() + at, want.width);
      kl += r.kl, lost += r.lost, other += r.other ? 1 : 0;
    }
    const auto count = static_cast<double>(want.rows());
    errors.more = {{"kl", "divergence of the classes' probabilities", kl / count},
                   {"regret", "loss by the chosen classes", lost / count / spread_of(want.values)},
                   {"top1_other", "share of other classes", other / count}};
  }

  // An error e of all logits gives a divergence of e^2 / 2 or less. A chosen class is behind the
  // best one by two errors or less.
  std::vector<double> limits(const ErrorNumbers& own, const ErrorNumbers* rival,
                             double worst1) const override {
    if (own.more.empty()) return {};
    const double absolute = worst1 * own.spread;
    double kl = absolute * absolute / 2, regret = 2 * worst1;
    if (rival) {
      kl = std::max(kl, kOfBaseline * kOfBaseline * rival->more[0].value);
      regret = std::max(regret, kOfBaseline * rival->more[1].value);
    }
    return {kl, regret, HUGE_VAL};
  }
};

FK_METRIC(cls, ClassMetric);

}  // namespace

}  // namespace fk
