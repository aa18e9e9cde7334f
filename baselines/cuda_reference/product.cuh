// SPDX-License-Identifier: Apache-2.0
// The product of rows with matrices on the double-precision tensor cores: tiles are converted to double in shared
// memory, 128 threads multiply them, sums stay in double. One kernel serves every op of the family: rows are read and
// written through maps, weights through a type that knows their format. An output's sum runs over k in the same
// order in every tile, so it does not depend on how many rows there are.
#pragma once
#include "common.cuh"

namespace fkr {

inline constexpr int kProductThreads = 128, kDepth = 32, kStride = kDepth + 4;  // of k; the padding spreads rows over banks
inline constexpr int kColumns = 64;

// Where the rows of a product with matrix z come from and go to: row r is at source(z, r) of x and target(z, r) of out.
struct Rows {
  const int32_t *ids, *offsets;  // grouped: row_ids and expert_offsets; otherwise null
  int64_t top_k, count;          // plain: number of rows
  int64_t x_row, x_matrix, out_row, out_matrix;  // strides
  __device__ int64_t begin(int64_t z) const { return offsets ? offsets[z] : 0; }
  __device__ int64_t end(int64_t z) const { return offsets ? offsets[z + 1] : count; }
  __device__ int64_t source(int64_t z, int64_t r) const { return (ids ? ids[r] / top_k : r) * x_row + z * x_matrix; }
  __device__ int64_t target(int64_t z, int64_t r) const { return (ids ? ids[r] : r) * out_row + z * out_matrix; }
};

// Weight formats: element (row, column) of matrix z, of n rows and k columns.
struct Dense {
  Ref weight;
  int64_t n, k;
  __device__ double at(int64_t z, int64_t row, int64_t column) const { return load(weight, (z * n + row) * k + column); }
};
struct Fp8Blocks {
  Ref weight;
  const float* scales;
  int64_t n, k, block_n, block_k;
  __device__ double at(int64_t z, int64_t row, int64_t column) const {
    const int64_t down = (n + block_n - 1) / block_n, across = (k + block_k - 1) / block_k;
    return load(weight, (z * n + row) * k + column) * double(scales[(z * down + row / block_n) * across + column / block_k]);
  }
};
// Two e2m1 values a byte, the even column low; a power of two for 32 of them, of which 255 is NaN.
struct Mxfp4 {
  const uint8_t *values, *powers;
  int64_t n, k;
  __device__ double at(int64_t z, int64_t row, int64_t column) const {
    const int64_t i = (z * n + row) * k + column;
    const int code = values[i / 2] >> (i % 2 * 4) & 15, exponent = code >> 1 & 3, mantissa = code & 1;
    const double magnitude = exponent ? (2 + mantissa) * double(1 << exponent) / 4 : mantissa / 2.0;
    const int power = powers[i / 32];
    return power == 255 ? NAN : ldexp(code & 8 ? -magnitude : magnitude, power - 127);
  }
};

// A block's tile has kWarpRows x (4 / kWarpRows) warps of kFragments 16 x 8 fragments over and kAcross beside
// each other. blockIdx: x column tile, y row tile, z matrix.
template <int kWarpRows, int kFragments, int kAcross, class Weight>
__global__ void __launch_bounds__(kProductThreads) product(Ref x, Weight weight, Ref bias, Ref out, Rows rows) {
  constexpr int kRows = kWarpRows * kFragments * 16;
  static_assert(4 / kWarpRows * kAcross * 8 == kColumns, "four warps cover the columns of a tile");
  __shared__ double a[kRows][kStride], b[kColumns][kStride];
  __shared__ int64_t source[kRows];
  const int64_t matrix = blockIdx.z, first = int64_t(blockIdx.x) * kColumns, n = weight.n, k = weight.k, end = rows.end(matrix);
  const int lane = int(threadIdx.x % 32), warp = int(threadIdx.x / 32), g = lane / 4, t = lane % 4;
  const int wr = warp % kWarpRows * kFragments * 16, wc = warp / kWarpRows * kAcross * 8;
  for (int64_t tile = rows.begin(matrix) + int64_t(blockIdx.y) * kRows; tile < end; tile += int64_t(gridDim.y) * kRows) {
    double sum[kFragments][kAcross][4] = {};
    for (int r = int(threadIdx.x); r < kRows; r += kProductThreads) source[r] = tile + r < end ? rows.source(matrix, tile + r) : -1;
    __syncthreads();
    for (int64_t k0 = 0; k0 < k; k0 += kDepth) {
      const bool inside = k0 + lane < k;
#pragma unroll 4
      for (int r = warp; r < kRows; r += 4) a[r][lane] = inside && source[r] >= 0 ? load(x, source[r] + k0 + lane) : 0;
#pragma unroll 4
      for (int r = warp; r < kColumns; r += 4) b[r][lane] = inside && first + r < n ? weight.at(matrix, first + r, k0 + lane) : 0;
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kDepth; i += 4) {
        double right[kAcross];
#pragma unroll
        for (int c = 0; c < kAcross; ++c) right[c] = b[wc + c * 8 + g][i + t];
#pragma unroll
        for (int f = 0; f < kFragments; ++f) {
          const double upper = a[wr + f * 16 + g][i + t], lower = a[wr + f * 16 + g + 8][i + t];
#pragma unroll
          for (int c = 0; c < kAcross; ++c) multiply(sum[f][c], upper, lower, right[c]);
        }
      }
      __syncthreads();
    }
#pragma unroll
    for (int f = 0; f < kFragments; ++f) {
#pragma unroll
      for (int c = 0; c < kAcross; ++c) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int64_t row = tile + wr + f * 16 + g + e / 2 * 8, column = first + wc + c * 8 + 2 * t + e % 2;
          if (row >= end || column >= n) continue;
          store(out, rows.target(matrix, row) + column, sum[f][c][e] + load_or(bias, matrix * n + column, 0));
        }
      }
    }
  }
}

// `tiles_max` bounds the row tiles that run beside each other; `expected` is how many rows a matrix may have.
template <class Weight>
void multiply_rows(Ref x, const Weight& weight, Ref bias, Ref out, const Rows& rows, int64_t expected, int64_t matrices, int64_t tiles_max,
                   const fk_ctx& ctx) {
  if (!rows.count) return;
  const auto grid = [&](int tile) {
    return dim3(blocks(weight.n, kColumns), unsigned(std::min<int64_t>(blocks(rows.count, tile), tiles_max)), unsigned(matrices));
  };
  if (expected <= 16)
    launch(ctx, product<1, 1, 2, Weight>, grid(16), kProductThreads, 0, x, weight, bias, out, rows);
  else
    launch(ctx, product<2, 2, 4, Weight>, grid(64), kProductThreads, 0, x, weight, bias, out, rows);
}

}  // namespace fkr
