// SPDX-License-Identifier: Apache-2.0
// Logarithms of the probabilities of given tokens. Beside the errors of all values:
//   nll_error  mean of |difference| in nats, over all tokens
//   nll_bias   the difference of the means in nats, by which the perplexity is off
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
    errors.more = {{"nll_error", "difference of log-probabilities, in nats", error / count},
                   {"nll_bias", "difference of their means, in nats", std::fabs(bias) / count}};
  }

  // Neither mean exceeds the largest errors.
  std::vector<double> limits(const ErrorNumbers& own, const ErrorNumbers* rival,
                             double worst1) const override {
    if (own.more.empty()) return {};
    double error = worst1 * own.spread, bias = error;
    if (rival) {
      error = std::max(error, kOfBaseline * rival->more[0].value);
      bias = std::max(bias, kOfBaseline * rival->more[1].value);
    }
    return {error, bias};
  }
};

FK_METRIC(nll, LikelihoodMetric);

}  // namespace

}  // namespace fk
