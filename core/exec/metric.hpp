// SPDX-License-Identifier: Apache-2.0
// Interface of metrics. A metric says how far answers are from the oracle's, and which distance is
// allowed. `correctness` of a model's description names it. Each metric is a file of
// core/engines/metrics.
//
// The rule: a candidate's error may be 1.5 times the baseline's. A floor is allowed in any case,
// because honest implementations differ that much. Rounding to nearest has a relative error of
// about epsilon / 4 (rms). Each layer rounds the residual stream at least twice, and independent
// errors add up with the square root of their number. So the floor is max(1e-5, epsilon / 4 *
// sqrt(layers + 1)) of the spread of the oracle's values. It is three times that for the 99th
// percentile (2.6 standard deviations of a normal error).
#pragma once
#include <string>
#include <vector>

#include "core/exec/request.hpp"
#include "core/tensor/dtype.hpp"

namespace fk {

// A figure of one metric beside the errors of values. 0 is best.
struct Distance {
  std::string name;   // of JSON: "kl"
  std::string words;  // "the divergence of the classes' probabilities"
  double value = 0;
};

struct ErrorNumbers {
  double rms = 0, worst1 = 0;  // shares of the spread; worst1 is the 99th percentile
  double best5 = 0;            // 5th percentile of the error of a row, as a share of the spread
  double spread = 0;           // of the oracle's values
  int64_t values = 0, rows = 0;
  int64_t rerouted = 0;  // rows left out of rms and worst1: see `routed`
  std::string wrong;     // NaN, missing or misshapen results; wrong with any numbers
  std::string pattern;
  std::vector<Distance> more = {};
};

struct ErrorLimits {
  double rms = 0, worst1 = 0;
  int64_t rerouted = 0;
  double best5 = 0;               // 0: not tested
  std::vector<double> more = {};  // in the order of ErrorNumbers::more
};

// Where the limits of errors come from.
struct ErrorScale {
  DType dtype = DType::f32;
  int64_t layers = 1;
  double limit = 0;  // of a baseline, which has no rival: as for `verify`
  // coarse_limit(): of errors where activations are rounded to f8. In float32 few inputs round to
  // another f8 number. But such an input changes its token, and all later ones of its request, as
  // much as in 16 bits. So `coarse` limits the errors of all rows, and the usual limit holds for
  // the best rows.
  double coarse = 0;
};

// A result which people look at as an image: rows, columns, and one colour or three. `black` and
// `white` are the values of these colours.
struct ShownImage {
  std::string result;
  double black = 0, white = 1;
};

class Metric {
 public:
  virtual ~Metric() = default;
  // Compares all results with the oracle's, row by row. `routed`: a mixture of experts in 16 bits,
  // where rounding sends some tokens to other experts. Rows with more than 8 times the median error
  // are then counted and not measured.
  virtual ErrorNumbers compare(const Answers& got, const Answers& want, bool routed) const = 0;
  // Limits of a baseline, and limits of a candidate compared with it.
  virtual ErrorLimits baseline_limits(const ErrorNumbers& baseline,
                                      const ErrorScale& scale) const = 0;
  virtual ErrorLimits candidate_limits(const ErrorNumbers& baseline,
                                       const ErrorScale& scale) const = 0;
  // The images among the results of an answer, by their names.
  virtual std::vector<ShownImage> images(const RequestResult&) const { return {}; }
};

// At file scope in core/engines/metrics/<name>.cpp, for a class of Metric: FK_METRIC(mine, Mine);
struct MetricRegistration {
  MetricRegistration(const char* name, const Metric& metric);
};
#define FK_METRIC(name, Type)           \
  static const Type fk_##name##_object; \
  static const ::fk::MetricRegistration fk_metric_##name(#name, fk_##name##_object)

std::vector<std::string> metric_names();
// Null: there is none of this name.
const Metric* find_metric(const std::string& name);

}  // namespace fk
