// SPDX-License-Identifier: Apache-2.0
// Online softmax of attention: a row has its largest score so far, and the sum of exp2(score -
// max). Scores are times log2 e. A larger score shrinks the sums before it by exp2(old max - new
// max).
#pragma once
#include "math.cuh"

namespace fkc {

// The maximum to subtract. A row without a visible key has -inf, and -inf - -inf would be NaN.
__device__ inline float finite_max(float max) { return max == -INFINITY ? 0.F : max; }

// Adds an attention sink, a score without a value, to a row's sum. Returns the factor of the row's
// values.
__device__ inline float add_sink(float sink, float max, float& sum) {
  const float next = fmaxf(max, sink), shrink = exp2_approx(max - next);
  sum = sum * shrink + exp2_approx(sink - next);
  return shrink;
}

}  // namespace fkc
