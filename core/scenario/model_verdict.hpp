// SPDX-License-Identifier: Apache-2.0
// Judges a model with given providers. Teacher-forced logits (or embeddings) are compared with an
// oracle's, in float32 with the same weights. Answers of timed runs are audited.
//
// The rule: the candidate's error, as a share of the spread of the oracle's values, may be 1.5
// times the baseline's. A floor is allowed in any case, because honest implementations differ that
// much. Rounding to nearest has a relative error of about epsilon / 4 (rms). Each layer rounds the
// residual stream at least twice, and independent errors add up with the square root of their
// number. So the floor is max(1e-5, epsilon / 4 * sqrt(layers + 1)). It is three times that for the
// 99th percentile (2.6 standard deviations of a normal error).
#pragma once
#include <string>
#include <vector>

#include "core/engines/scenario.hpp"
#include "core/scenario/drive_round.hpp"
#include "core/tensor/tensor.hpp"

namespace fk {

// A few requests of different lengths, through chunked prefill and decode; for encoders, texts of
// different lengths. Asks for logits of the prompt when they are small.
std::vector<Request> correctness_requests(const Scenario& scenario, bool generates, uint64_t seed);

struct ErrorNumbers {
  double rms = 0, worst1 = 0;  // shares of the spread; worst1 is the 99th percentile
  double best5 = 0;            // 5th percentile of the error of a row, as a share of the spread
  double spread = 0;           // of the oracle's values
  int64_t values = 0, rows = 0;
  int64_t rerouted = 0;  // rows left out of rms and worst1: see `routed`
  std::string wrong;     // NaN, missing or misshapen results; wrong with any numbers
  std::string pattern;
};

// Compares all results of a round (logits, tensors) with the oracle's, row by row. `routed`: a
// mixture of experts in 16 bits, where rounding sends some tokens to other experts. Rows with more
// than 8 times the median error are then counted and not measured.
ErrorNumbers compare_rounds(const Round& got, const Round& want, bool routed);

struct ErrorLimits {
  double rms = 0, worst1 = 0;
  int64_t rerouted = 0;
  double best5 = 0;  // 0: not tested
};
// Limits of a baseline, with `limit` as for `verify`, and limits of a candidate compared with it.
// `coarse` is coarse_limit(). In float32 few inputs round to another f8 number. But such an input
// changes its token, and all later ones of its request, as much as in 16 bits. So `coarse` limits
// the errors of all rows, and the usual limit holds for the best rows.
ErrorLimits baseline_limits(const ErrorNumbers& baseline, double limit, double coarse, DType dtype);
ErrorLimits error_limits(const ErrorNumbers& baseline, DType dtype, int64_t layers,
                         double coarse = 0);
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
NullAnswer best_null_answer(const Round& want, const ErrorLimits& limits, bool routed);
// Empty, or evidence that the mutant passes. A right answer proves nothing then.
std::string untestable(const NullAnswer& mutant);

// Requests for the oracle to score answers of a timed round, at most `count`. One half are those
// furthest from the baseline's answers; `seed` chooses the others. If the model predicts the next
// token, prompt and answer form one prompt, which scores all tokens at once. Otherwise the model is
// teacher-forced to the tokens in their order of arrival.
std::vector<Request> audit_requests(const Round& timed, size_t count, uint64_t seed,
                                    bool predicts_next);
// Each greedy token's logit by the oracle must be within `tolerance` (absolute) of the largest one.
// A sampled token must be among the top_k with that tolerance. Encoders' tensors are compared.
// Returns empty, or the answer that does not follow from the model. `predicts_next` is the model's.
std::string audit(const Round& timed, const Round& oracle, double tolerance,
                  const ErrorLimits& limits, bool routed, bool predicts_next);

int64_t layer_count(const Config& config);
bool is_routed(const Config& config, DType dtype);

// The baseline's allowed error when activations are rounded to f8e4m3, as a share of the spread; 0
// otherwise. Rounding in 16 bits moves inputs over the boundaries between f8 numbers. After a few
// layers two roundings are independent. They differ by sqrt(2/12) of a step, which is 0.037 of the
// value (rms). With some eight inputs per layer, that is 0.1 sqrt(layers) in all. Twice that is
// allowed.
double coarse_limit(const Config& config, int64_t layers);

}  // namespace fk
