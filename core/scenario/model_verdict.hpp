// SPDX-License-Identifier: Apache-2.0
// Judges a model with given providers. Teacher-forced results are compared with an oracle's, in
// float32 with the same weights, by the model's metric (core/exec/metric.hpp). Answers of timed
// runs are audited.
#pragma once
#include <string>
#include <vector>

#include "core/engines/scenario.hpp"
#include "core/exec/metric.hpp"
#include "core/scenario/drive_round.hpp"
#include "core/tensor/tensor.hpp"

namespace fk {

struct OpRow;

// Empty, or why the errors are too large.
std::string judge_errors(const ErrorNumbers& errors, const ErrorLimits& limits);
// The worst error as a multiple of its limit; above 1 where judge_errors() has a reason. Infinite:
// a result is missing or NaN.
double of_allowed(const ErrorNumbers& errors, const ErrorLimits& limits);

// An answer without work, the one with smaller errors: zeros, or one number everywhere.
struct NullAnswer {
  double of_allowed = 0;  // its errors, as by of_allowed()
  double value = 0;       // the number
};
NullAnswer best_null_answer(const Round& want, const ErrorLimits& limits, bool routed,
                            const Metric& metric);
// Empty, or evidence that the mutant passes. A right answer proves nothing then.
std::string untestable(const NullAnswer& mutant);

// Requests for the oracle to score answers of a timed round, at most `count`. One half are those
// furthest from the baseline's answers; `seed` chooses the others.
std::vector<Request> audit_requests(const Round& timed, size_t count, uint64_t seed,
                                    const Engine& engine);
// The scenario's engine audits tokens with this tolerance; its metric compares tensors. Returns
// empty, or the answer that does not follow from the model.
std::string audit(const Round& timed, const Round& oracle, double tolerance,
                  const ErrorLimits& limits, bool routed, const Scenario& scenario);

int64_t layer_count(const Config& config);
bool is_routed(const Config& config, DType dtype);

// The baseline's allowed error when activations are rounded to f8e4m3 by `ops`, as a share of the
// spread; 0 otherwise. Rounding in 16 bits moves inputs over the boundaries between f8 numbers.
// After a few layers two roundings are independent. They differ by sqrt(2/12) of a step, which is
// 0.037 of the value (rms). With some eight inputs per layer, that is 0.1 sqrt(layers) in all.
// Twice that is allowed.
double coarse_limit(const Config& config, int64_t layers, const std::vector<OpRow>& ops);

}  // namespace fk
