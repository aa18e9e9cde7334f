// SPDX-License-Identifier: Apache-2.0
// Products of some rows of x with a matrix of few columns, such as the step of Mamba from its rank.
// A warp has 16 rows of weights in registers before the kernel in front of this one has ended. K is
// in the order in which a lane reads it, the same for both factors: eight elements in a row.
#pragma once
#include "../parts/mma.cuh"
#include "../parts/op.cuh"

namespace fkc {

namespace narrow {

constexpr int kWarps = 4, kOuts = 16,
              kStep = 32;  // of a block; rows of weights of a warp; columns of a step
constexpr int kWidthMost = 16 * kStep, kRowsMost = 64;

template <class T, class O>
struct Arguments {
  const T* x;
  int64_t x_step;  // elements
  const T* weight;
  const O* bias;  // or null
  O* out;         // [rows, n]
  int rows, n, k;
};

// The reason for a refusal, or null.
inline const char* refusal(int64_t rows, int64_t k) {
  if (rows > kRowsMost || k > kWidthMost)
    return "a narrow matrix: up to 64 rows of x and 512 columns only";
  return k % 8 ? "in_features: a multiple of 8 only" : nullptr;
}

template <class T>
__device__ uint4 eight(const T* row, int at, bool there) {
  return there ? *reinterpret_cast<const uint4*>(row + at) : make_uint4(0, 0, 0, 0);
}

template <class T, class O, int kSteps>
__global__ void __launch_bounds__(32 * kWarps) narrow_gemv(const Arguments<T, O> a) {
  const int lane = int(threadIdx.x) % 32, row = lane / 4,
            first = (int(blockIdx.x) * kWarps + int(threadIdx.x) / 32) * kOuts + row;
  uint4 w[kSteps][2];
#pragma unroll
  for (int s = 0; s < kSteps; ++s)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int at = s * kStep + lane % 4 * 8;
      w[s][h] = eight(a.weight + int64_t(first + h * 8) * a.k, at, first + h * 8 < a.n && at < a.k);
    }
  float bias[2] = {};
#pragma unroll
  for (int h = 0; h < 2; ++h)
    if (a.bias && first + h * 8 < a.n) bias[h] = to_float(a.bias[first + h * 8]);
  wait_for_inputs();
  const int tile = int(blockIdx.y) * 8;
  uint4 x[kSteps];
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    const int at = s * kStep + lane % 4 * 8;
    x[s] = eight(a.x + (tile + row) * a.x_step, at, tile + row < a.rows && at < a.k);
  }
  float sums[2][4] = {};  // of the halves of steps, which do not wait for each other
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    const uint32_t left[2][4] = {{w[s][0].x, w[s][1].x, w[s][0].y, w[s][1].y},
                                 {w[s][0].z, w[s][1].z, w[s][0].w, w[s][1].w}};
    mma_m16n8k16<T>(sums[0], left[0], x[s].x, x[s].y);
    mma_m16n8k16<T>(sums[1], left[1], x[s].z, x[s].w);
  }
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const int out_row = tile + lane % 4 * 2 + e % 2, column = first + e / 2 * 8;
    if (out_row < a.rows && column < a.n)
      a.out[int64_t(out_row) * a.n + column] = from_float<O>(sums[0][e] + sums[1][e] + bias[e / 2]);
  }
}

template <class T, class O>
void multiply(const Arguments<T, O>& a, const fk_ctx& ctx) {
  const int64_t steps = cdiv(a.k, kStep);
  const auto kernel = steps <= 1   ? narrow_gemv<T, O, 1>
                      : steps <= 4 ? narrow_gemv<T, O, 4>
                      : steps <= 6 ? narrow_gemv<T, O, 6>
                      : steps <= 8 ? narrow_gemv<T, O, 8>
                                   : narrow_gemv<T, O, 16>;
  const dim3 grid(unsigned(cdiv(a.n, kWarps * kOuts)), unsigned(cdiv(a.rows, 8)));
  launch(kernel, grid, 32 * kWarps, 0, ctx, a);
}

}  // namespace narrow

}  // namespace fkc
