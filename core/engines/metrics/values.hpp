// SPDX-License-Identifier: Apache-2.0
// Errors of all values of the answers: what metrics of numbers share.
#pragma once
#include <vector>

#include "core/exec/metric.hpp"

namespace fk {

// The values of answers as rows of equal width, which divides each result's width.
struct ComparedRows {
  int64_t width = 0;
  std::vector<float> values;
  int64_t rows() const { return width ? static_cast<int64_t>(values.size()) / width : 0; }
};

class ValueMetric : public Metric {
 public:
  ErrorNumbers compare(const Answers& got, const Answers& want, bool routed) const override;
  ErrorLimits baseline_limits(const ErrorNumbers& baseline, const ErrorScale& scale) const override;
  ErrorLimits candidate_limits(const ErrorNumbers& baseline,
                               const ErrorScale& scale) const override;

 protected:
  // Makes rows of answers: logits by position, then tensors, request by request. `want` has the
  // required rows. Returns empty, or the missing part.
  virtual std::string collect(const Answers& got, const Answers& want, ComparedRows& rows) const;
  // Adds figures of the metric. The rows are of one size.
  virtual void measure(const ComparedRows&, const ComparedRows&, ErrorNumbers&) const {}
  // The limits of these figures, where the 99th percentile of the values' errors may be `worst1`, a
  // share of the spread. `rival`: the baseline of a candidate; null: the limits are a baseline's.
  virtual std::vector<double> limits(const ErrorNumbers& /*own*/, const ErrorNumbers* /*rival*/,
                                     double /*worst1*/) const {
    return {};
  }
};

// The smallest errors that every implementation may have: a share of the spread.
double error_floor(const ErrorScale& scale);
// How much larger than the baseline's a candidate's errors may be.
inline constexpr double kOfBaseline = 1.5;

}  // namespace fk
