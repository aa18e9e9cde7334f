// SPDX-License-Identifier: Apache-2.0
// Products with at most kSmallM rows of x, whose time is the reading of the weight. The kernel
// reads the weight once, in the order of memory, and multiplies it with all rows of x, which stay
// in the first-level cache. Sums are float32, rounded once at the end.
#pragma once
#include "level.hpp"

namespace fk::cpu {

inline constexpr int kSmallM = 8;  // most rows of x

// Outputs that the kernel computes together. Ranges of outputs begin at multiples.
inline constexpr int64_t kSmallColumns = 8;

// out[m][n] = x[m] . weight[n] (+ bias[n]). Each row of x and out has its own address.
struct SmallM {
  const void* weight;  // [N, K], dense
  const void* bias;    // [N] or null
  const float* x[kSmallM];
  void* out[kSmallM];
  int64_t k;
  int m, weight_type, bias_type, out_type;  // Types of op.hpp
};

// to[i] = from[i] (+ bias[i]): a row converted to float32, or from it.
struct Convert {
  const void* from;
  void* to;
  const void* bias;
  int from_type, to_type, bias_type;
};

}  // namespace fk::cpu

// Computes outputs [begin, end) of every row.
FK_CPU_KERNEL(small_m, const SmallM&, int64_t begin, int64_t end)
// Converts elements [0, count).
FK_CPU_KERNEL(convert, const Convert&, int64_t count)
