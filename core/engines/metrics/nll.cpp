// SPDX-License-Identifier: Apache-2.0
// Logarithms of the probabilities of given tokens. Beside the errors of all values:
//   nll_bias   the difference of the means in nats, by which the perplexity is off
//   nll_error  mean of |difference| in nats, over all tokens; not judged, as rms is
//   tokens     not judged
#include <algorithm>
#include <cmath>

#include "core/engines/metrics/values.hpp"

namespace fk {

namespace {

class LikelihoodMetric final : public ValueMetric {
  void measure(const ComparedRows& got, const ComparedRows& want,
               ErrorNumbers& errors) const override {
    double error = 0, bias = 0;
    for (size_t i = 0; i < want.values.size(); ++i) {
      const double d = static_cast<double>(got.values[i]) - static_cast<double>(want.values[i]);
      error += std::fabs(d), bias += d;
    }
    const auto count = static_cast<double>(want.values.size());
    errors.more = {{"nll_bias", "difference of the means, in nats", std::fabs(bias) / count},
                   {"nll_error", "difference of log-probabilities, in nats", error / count},
                   {"tokens", "tokens with a log-probability", count}};
  }

  // Errors of rounding have no sign, so their mean shrinks with the root of the number of tokens.
  std::vector<double> limits(const ErrorNumbers& own, const ErrorNumbers* rival,
                             double worst1) const override {
    if (own.more.size() < 3) return {};
    double bias = 3 * worst1 * own.spread / std::sqrt(std::max(own.more[2].value, 1.0));
    if (rival) bias = std::max(bias, kOfBaseline * rival->more[0].value);
    return {bias, HUGE_VAL, HUGE_VAL};
  }
};

FK_METRIC(nll, LikelihoodMetric);

}  // namespace

}  // namespace fk
