// SPDX-License-Identifier: Apache-2.0
// A norm with stored statistics as one factor and one number to add for each channel. They are
// computed once, from weights, into packed memory.
#pragma once
#include "each_item.cuh"
#include "op.cuh"

namespace fkc {

template <class T>
struct NormOf {
  Parameter<T> weight, bias, mean, variance;
  float eps;
};
template <class T>
struct FoldNorm {
  NormOf<T> norm;
  float *scale, *shift;
  __device__ void operator()(int64_t c) const {
    const auto or_else = [&](const Parameter<T>& p, float absent) {
      return p.narrow || p.wide ? p.one(c) : absent;
    };
    const double factor =
        or_else(norm.weight, 1) / sqrt(double(norm.variance.one(c)) + double(norm.eps));
    scale[c] = float(factor);
    shift[c] = float(or_else(norm.bias, 0) - double(norm.mean.one(c)) * factor);
  }
};
inline int64_t affine_bytes(int64_t channels) { return channels * 8; }
// Factors to `table`, then numbers to add.
template <class T>
void fold_norm(const NormOf<T>& norm, int64_t channels, float* table, void* stream) {
  fk_ctx ctx{};
  ctx.stream = stream;
  for_each_item(channels, ctx, FoldNorm<T>{norm, table, table + channels});
}

}  // namespace fkc
