// SPDX-License-Identifier: Apache-2.0
// Products with few rows of x, which are bound by reading the weight: it is streamed once, in the
// order in which it lies, and multiplied with up to kSmallM rows held in the first caches. Float32
// accumulation, one rounding at the end.
#pragma once
#include "level.hpp"

namespace fk::cpu {

inline constexpr int kSmallM = 8;

// Outputs that are computed beside each other; ranges of outputs begin at multiples.
inline constexpr int64_t kSmallColumns = 8;

// out[m][n] = x[m] . weight[n] (+ bias[n]); x and out are given by row.
struct SmallM {
  const void* weight;  // [N, K], dense
  const void* bias;    // [N] or null
  const float* x[kSmallM];
  void* out[kSmallM];
  int64_t k;
  int m, weight_type, bias_type, out_type;  // Types of op.hpp
};

// A row to float32, or float32 to a row with a bias: values[i] (+ bias[i]).
struct Convert {
  const void* from;
  void* to;
  const void* bias;
  int from_type, to_type, bias_type;
};

}  // namespace fk::cpu

// Outputs [begin, end) of every row.
FK_CPU_KERNEL(small_m, const SmallM&, int64_t begin, int64_t end)
// Elements [0, count).
FK_CPU_KERNEL(convert, const Convert&, int64_t count)
