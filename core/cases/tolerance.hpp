// SPDX-License-Identifier: Apache-2.0
// How far an output may be from the reference: a model of rounding, not a table of numbers, and
// without an allowed share of wrong elements.
//
// The reference computes in double on the very inputs that the provider got, with outputs in
// float32, so what is left is the provider's own rounding:
//   output      the result is rounded once to its dtype, and low-precision code commonly rounds one
//               intermediate too (x * scale before * weight): 2 eps(out) |want|, relative
//   sums        a float32 sum of n terms, added one after the other, has an error that grows like a
//               random walk: about 0.2 eps sqrt(n) of the result's size for terms of both signs and
//               0.17 eps sqrt(n) for positive ones (standard deviation); a maximum over millions of
//               elements is six of those. Allowed: 2 eps(f32) sqrt(n) |want| for positive terms and
//               4 eps(f32) sqrt(n) spread for those of both signs
//   functions   exp, erf, rsqrt in float32: a few eps, and exp of a score s has eps |s|:
//               16 eps(f32) for elementwise code, 64 for softmax
//   inside      values that are stored between steps in the working dtype (probabilities of an
//               attention, activations inside an L2 or L3 op) are each off by at most eps/2, at
//               random, so the result is off by a fixed share of its spread, independent of n:
//               2 eps(working) spread for softmax, 4 for L2, 8 for L3
// The sum is cut at a hard maximum, so that no length can excuse a wrong value. Spread is the
// standard deviation of the wanted tensor: near zero an error relative to the element says nothing.
// With softmax it is that of the element's own row where that is larger: the first queries of a
// causal attention average over few keys, the last ones, of which there are more, over many.
#pragma once
#include <string>

#include "core/cases/inputs.hpp"

namespace fk {

struct ErrorModel {
  bool exact = false;    // equal after rounding the wanted value to the output's dtype
  double of_value = 0;   // allowed = min(of_value * |want| + of_spread * spread,
  double of_spread = 0;  //               hard * max(|want|, spread))
  double hard = 0;
  bool by_row = false;  // spread of the row (last axis) where it is larger than the tensor's
  std::string text;     // "0.0156 |want| + 3.24e-05 spread, at most 0.125 of either"
};

ErrorModel error_model(const ResolvedCase& resolved, const CaseField& output);

struct Judgement {
  bool ok = true;
  double worst = 0;  // largest error as a share of what is allowed
  std::string text;  // when not ok: where, how far, and the pattern of the wrong elements
};

// `got` has the output's dtype, `want` float32 or the output's dtype.
Judgement judge(const Tensor& got, const Tensor& want, const ErrorModel& model);

}  // namespace fk
