// SPDX-License-Identifier: Apache-2.0
// Products of few rows of x with a matrix of few columns, such as the step of Mamba from its rank.
// A warp has four rows of weights in registers before the kernel in front of this one has ended.
#pragma once
#include "../parts/op.cuh"
#include "../parts/reduce.cuh"
#include "../parts/vector.cuh"

namespace fkc {

namespace narrow_gemv {

constexpr int kWarps = 8, kOuts = 4,
              kVectors = 2;  // of a block; rows of weights of a warp; of 8 elements, of a lane
constexpr int kWidthMost = 32 * 8 * kVectors, kRowsMost = 16;

template <class T, class O>
struct Arguments {
  const T* x;
  int64_t x_step;  // elements
  const T* weight;
  const O* bias;  // or null
  O* out;         // [rows, n]
  int rows, n, k;
};

inline bool takes(int64_t rows, int64_t k) {
  return rows <= kRowsMost && k <= kWidthMost && k % 8 == 0;
}

template <class T, class O>
__global__ void __launch_bounds__(32 * kWarps) multiply_rows(const Arguments<T, O> a) {
  const int lane = int(threadIdx.x) % 32,
            first = (int(blockIdx.x) * kWarps + int(threadIdx.x) / 32) * kOuts;
  Vec8<T> w[kOuts][kVectors];
#pragma unroll
  for (int o = 0; o < kOuts; ++o)
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int at = (v * 32 + lane) * 8;
      w[o][v].raw = make_uint4(0, 0, 0, 0);
      if (first + o < a.n && at < a.k) w[o][v] = load8(a.weight + int64_t(first + o) * a.k + at);
    }
  wait_for_inputs();
  for (int row = 0; row < a.rows; ++row) {
    float sum[kOuts] = {};
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int at = (v * 32 + lane) * 8;
      if (at >= a.k) continue;
      float x[8];
      load_floats(a.x + row * a.x_step + at, x);
#pragma unroll
      for (int o = 0; o < kOuts; ++o)
#pragma unroll
        for (int k = 0; k < 8; ++k) sum[o] += x[k] * to_float(w[o][v].at[k]);
    }
#pragma unroll
    for (int o = 0; o < kOuts; ++o) {
      sum[o] = warp_sum(sum[o]);
      const int column = first + o;
      if (lane == o && column < a.n)
        a.out[int64_t(row) * a.n + column] =
            from_float<O>(sum[o] + (a.bias ? to_float(a.bias[column]) : 0.F));
    }
  }
}

template <class T, class O>
void multiply(const Arguments<T, O>& a, const fk_ctx& ctx) {
  launch(multiply_rows<T, O>, unsigned(cdiv(a.n, kWarps * kOuts)), 32 * kWarps, 0, ctx, a);
}

}  // namespace narrow_gemv

}  // namespace fkc
