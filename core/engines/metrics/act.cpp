// SPDX-License-Identifier: Apache-2.0
// Actions. Beside all values, this metric looks at each dimension of the actions, the last axis. A
// gripper moves less than an arm, and its errors would hide among those of the arm.
//   unexplained  1 - R^2, the largest of all dimensions. An error e of a dimension with the
//   variance
//                v is e^2 / v
//   narrowest    the smallest variance of a dimension over that of all values; it is not judged
#include <algorithm>
#include <cmath>

#include "core/engines/metrics/values.hpp"

namespace fk {

namespace {

class ActionMetric final : public ValueMetric {
  void measure(const ComparedRows& got, const ComparedRows& want,
               ErrorNumbers& errors) const override {
    double unexplained = 0, narrowest = HUGE_VAL, all = 0, mean_of_all = 0;
    const auto rows = static_cast<double>(want.rows());
    const auto values = static_cast<double>(want.values.size());
    for (const float v : want.values) mean_of_all += static_cast<double>(v) / values;
    for (const float v : want.values)
      all += std::pow(static_cast<double>(v) - mean_of_all, 2) / values;
    for (int64_t d = 0; d < want.width; ++d) {
      double mean = 0, variance = 0, squares = 0;
      const auto each = [&](auto body) {
        for (int64_t row = 0; row < want.rows(); ++row) {
          const auto at = static_cast<size_t>(row * want.width + d);
          body(static_cast<double>(want.values[at]), static_cast<double>(got.values[at]));
        }
      };
      each([&](double w, double) { mean += w / rows; });
      each([&](double w, double g) {
        variance += (w - mean) * (w - mean) / rows;
        squares += (g - w) * (g - w) / rows;
      });
      if (!(variance > 0)) continue;  // a constant explains nothing
      unexplained = std::isnan(squares) ? HUGE_VAL : std::max(unexplained, squares / variance);
      narrowest = std::min(narrowest, variance);
    }
    if (!(all > 0) || narrowest == HUGE_VAL) narrowest = all = 1;
    errors.more = {{"unexplained", "unexplained variance of a dimension", unexplained},
                   {"narrowest", "smallest variance of a dimension", narrowest / all}};
  }

  // An error `worst1` of all values, a share of the spread, is worst1^2 over `narrowest` at most.
  std::vector<double> limits(const ErrorNumbers& own, const ErrorNumbers* rival,
                             double worst1) const override {
    if (own.more.empty()) return {};
    double most = worst1 * worst1 / own.more[1].value;
    if (rival) most = std::max(most, kOfBaseline * kOfBaseline * rival->more[0].value);
    return {most, HUGE_VAL};
  }
};

FK_METRIC(act, ActionMetric);

}  // namespace

}  // namespace fk
