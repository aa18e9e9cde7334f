// SPDX-License-Identifier: Apache-2.0
// Is a model right with these providers in it? Teacher-forced logits (or embeddings) against an
// oracle that computes in float32 with the same weights, and an audit of what timed runs answered.
//
// The rule: the error of a candidate, as a share of the spread of the oracle's values, may be at
// most 1.5 times that of the baseline, or the floor below which no honest implementation can be
// told from another: rounding to nearest has a relative error of about epsilon / 4 (rms), each
// layer rounds the residual stream at least twice, and independent errors add up with the square
// root of their number: floor = max(1e-5, epsilon / 4 * sqrt(layers + 1)); three times that for the
// 99th percentile (2.6 standard deviations of a normal error).
#pragma once
#include <string>
#include <vector>

#include "core/engines/scenario.hpp"
#include "core/scenario/drive_round.hpp"
#include "core/tensor/tensor.hpp"

namespace fk {

// A few requests of unlike lengths that go through chunked prefill and decoding; for encoders texts
// of unlike lengths. Logits of the prompt are asked for where they are small.
std::vector<Request> correctness_requests(const Scenario& scenario, bool generates, uint64_t seed);

struct ErrorNumbers {
  double rms = 0, worst1 = 0;  // shares of the spread; worst1 is the 99th percentile
  double best5 = 0;            // the same of the error of a row, the 5th percentile
  double spread = 0;           // of the oracle's values
  int64_t values = 0, rows = 0;
  int64_t rerouted = 0;  // rows left out of rms and worst1: see `routed`
  std::string wrong;     // NaN, missing or misshapen results: wrong whatever the numbers
  std::string pattern;
};

// Everything that a round computed (logits, tensors), row by row in order, against the oracle's.
// `routed`: a mixture of experts in 16 bits, where rounding sends some tokens to other experts;
// rows with more than 8 times the median error are counted instead of measured.
ErrorNumbers compare_rounds(const Round& got, const Round& want, bool routed);

struct ErrorLimits {
  double rms = 0, worst1 = 0;
  int64_t rerouted = 0;
  double best5 = 0;  // 0: it is not looked at
};
// Of a baseline, which has to be within `limit` (as `verify` wants a model to be), and of a
// candidate beside one. `coarse`: coarse_limit(). In float32 few inputs land on another f8 number,
// but one that does moves its token and all that follow in its request as far as in 16 bits. So the
// errors of all rows are held to that, and those of the best rows to what they are without.
ErrorLimits baseline_limits(const ErrorNumbers& baseline, double limit, double coarse, DType dtype);
ErrorLimits error_limits(const ErrorNumbers& baseline, DType dtype, int64_t layers,
                         double coarse = 0);
// Empty, or why the numbers are too bad.
std::string judge_errors(const ErrorNumbers& errors, const ErrorLimits& limits);

// Empty, or that a candidate who computes nothing would pass: zeros, or one number everywhere, held
// beside the oracle's answers as a candidate's would be. Then a right answer means nothing.
std::string untestable(const Round& want, const ErrorLimits& limits, bool routed);

// Requests that make the oracle score what a timed round answered, at most `count` of the round:
// for one half those that are furthest apart from the baseline's answers, the others chosen by
// `seed`. Where a model predicts the next token, prompt and answer are one prompt, so that
// all tokens of an answer are scored at once; else it is teacher-forced to them, in the order in
// which they came.
std::vector<Request> audit_requests(const Round& timed, size_t count, uint64_t seed,
                                    bool predicts_next);
// Each emitted greedy token must have an oracle's logit within `tolerance` (absolute) of the
// largest; a sampled one must be among the top_k with that tolerance. For encoders the tensors are
// compared. Empty, or what does not follow from the model. `predicts_next` is the model's.
std::string audit(const Round& timed, const Round& oracle, double tolerance,
                  const ErrorLimits& limits, bool routed, bool predicts_next);

int64_t layer_count(const Config& config);
bool is_routed(const Config& config, DType dtype);

// The error that a baseline may have where activations are rounded to f8e4m3, as a share of the
// spread; 0 where they are not. What 16 bits leave moves inputs over the boundaries between f8
// numbers, and after a few layers one rounding says nothing about another: two of them differ by
// sqrt(2/12) of a step, 0.037 of the value (rms), for some eight inputs of a layer, 0.1
// sqrt(layers) in all. Allowed is twice that.
double coarse_limit(const Config& config, int64_t layers);

}  // namespace fk
