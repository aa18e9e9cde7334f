// SPDX-License-Identifier: Apache-2.0
// The product of rows with matrices on the double-precision tensor cores. Tiles are converted to
// double in shared memory, 128 threads multiply them, and sums stay double. One kernel serves every
// op of the family: maps give the rows to read and write, and a type for the format reads weights.
// An output's sum runs over k in the same order in every tile, so it does not depend on the number
// of rows.
#pragma once
#include "common.cuh"

namespace fkr {

inline constexpr int kProductThreads = 128;

// The rows of a product with matrix z: row r is at source(z, r) of x and target(z, r) of out.
struct Rows {
  const int32_t *ids, *offsets;  // grouped: row_ids and expert_offsets; otherwise null
  int64_t top_k, count;          // plain: number of rows
  int64_t x_row, x_matrix, out_row, out_matrix;  // strides
  __device__ int64_t begin(int64_t z) const { return offsets ? offsets[z] : 0; }
  __device__ int64_t end(int64_t z) const { return offsets ? offsets[z + 1] : count; }
  __device__ int64_t source(int64_t z, int64_t r) const { return (ids ? ids[r] / top_k : r) * x_row + z * x_matrix; }
  __device__ int64_t target(int64_t z, int64_t r) const { return (ids ? ids[r] : r) * out_row + z * out_matrix; }
};

// Formats of weights with n rows and k columns. Each calls body with a reader of element (row,
// column) of matrix z.
struct Dense {
  Ref weight;
  int64_t n, k;
  template <class Body>
  __device__ void with(int64_t z, Body body) const {
    with_elements(weight, [&](const auto* all) { body([all, first = z * n, step = k](int64_t row, int64_t column) { return all[(first + row) * step + column]; }); });
  }
};
struct Fp8Blocks {
  Ref weight;
  const float* scales;
  int64_t n, k, block_n, block_k;
  __device__ double at(int64_t z, int64_t row, int64_t column) const {
    const int64_t down = (n + block_n - 1) / block_n, across = (k + block_k - 1) / block_k;
    return f8e4m3(reinterpret_cast<const uint8_t*>(weight.data)[(z * n + row) * k + column]) * double(scales[(z * down + row / block_n) * across + column / block_k]);
  }
  template <class Body>
  __device__ void with(int64_t z, Body body) const {
    body([this, z](int64_t row, int64_t column) { return at(z, row, column); });
  }
};
// Two e2m1 values a byte, the even column low, and a power of two for 32 of them. Power 255 is NaN.
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
  template <class Body>
  __device__ void with(int64_t z, Body body) const {
    body([this, z](int64_t row, int64_t column) { return at(z, row, column); });
  }
};

// A block's tile has kWarpRows x (4 / kWarpRows) warps. A warp has kFragments fragments of 16 x 8
// in each column and kAcross in each row, and takes kDepth of k at a time. blockIdx.x: column tile
// of a matrix; y: row tile.
template <int kWarpRows, int kFragments, int kAcross, int kDepth, class Weight>
__global__ void __launch_bounds__(kProductThreads, 3) product(Ref x, Weight weight, Ref bias, Ref out, Rows rows) {
  constexpr int kRows = kWarpRows * kFragments * 16, kColumns = 4 / kWarpRows * kAcross * 8, kStride = kDepth + 4;  // the padding spreads rows over banks
  constexpr int kLanes = kDepth / 32, kWarps = kProductThreads / 32;
  __shared__ double a[kRows][kStride], b[kColumns][kStride];
  __shared__ int64_t source[kRows];
  const int64_t n = weight.n, k = weight.k, across = (n + kColumns - 1) / kColumns;
  const int64_t matrix = blockIdx.x / across, first = blockIdx.x % across * kColumns, end = rows.end(matrix);
  const int lane = int(threadIdx.x % 32), warp = int(threadIdx.x / 32), g = lane / 4, t = lane % 4;
  const int wr = warp % kWarpRows * kFragments * 16, wc = warp / kWarpRows * kAcross * 8;
  for (int64_t tile = rows.begin(matrix) + int64_t(blockIdx.y) * kRows; tile < end; tile += int64_t(gridDim.y) * kRows) {
    double sum[kFragments][kAcross][4] = {};
    for (int r = int(threadIdx.x); r < kRows; r += kProductThreads) source[r] = tile + r < end ? rows.source(matrix, tile + r) : -1;
    __syncthreads();
#pragma unroll 1
    for (int64_t k0 = 0; k0 < k; k0 += kDepth) {
      // Places outside are read from a place inside, and dropped. Loads without a branch are in
      // flight together.
      with_elements(x, [&](const auto* elements) {
        constexpr int kLoads = kRows / kWarps * kLanes;
        std::decay_t<decltype(*elements)> read[kLoads];
#pragma unroll
        for (int i = 0; i < kLoads; ++i) read[i] = elements[max(source[warp + i / kLanes * kWarps], int64_t{0}) + min(k0 + lane + i % kLanes * 32, k - 1)];
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
          const int r = warp + i / kLanes * kWarps, column = lane + i % kLanes * 32;
          a[r][column] = k0 + column < k && source[r] >= 0 ? as_double(read[i]) : 0;
        }
      });
      weight.with(matrix, [&](const auto& element) {
        constexpr int kLoads = kColumns / kWarps * kLanes;
        std::decay_t<decltype(element(0, 0))> read[kLoads];
#pragma unroll
        for (int i = 0; i < kLoads; ++i) read[i] = element(min(first + warp + i / kLanes * kWarps, n - 1), min(k0 + lane + i % kLanes * 32, k - 1));
#pragma unroll
        for (int i = 0; i < kLoads; ++i) {
          const int r = warp + i / kLanes * kWarps, column = lane + i % kLanes * 32;
          b[r][column] = k0 + column < k && first + r < n ? as_double(read[i]) : 0;
        }
      });
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
    double shift[2 * kAcross];
#pragma unroll
    for (int c = 0; c < 2 * kAcross; ++c) {
      const int64_t column = first + wc + c / 2 * 8 + 2 * t + c % 2;
      shift[c] = column < n ? load_or(bias, matrix * n + column, 0) : 0;
    }
    with_elements(out, [&](auto* elements) {
#pragma unroll
      for (int f = 0; f < kFragments; ++f) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int64_t row = tile + wr + f * 16 + g + half * 8, to = row < end ? rows.target(matrix, row) : 0;
#pragma unroll
          for (int c = 0; c < 2 * kAcross; ++c) {
            const int64_t column = first + wc + c / 2 * 8 + 2 * t + c % 2;
            if (row < end && column < n) put(elements + to + column, sum[f][c / 2][half * 2 + c % 2] + shift[c]);
          }
        }
      }
    });
  }
}

// `tiles_max`: the most row tiles in the grid. `expected`: the rows which a matrix may have.
template <class Weight>
void multiply_rows(Ref x, const Weight& weight, Ref bias, Ref out, const Rows& rows, int64_t expected, int64_t matrices, int64_t tiles_max,
                   const fk_ctx& ctx) {
  if (!rows.count) return;
  const auto grid = [&](int columns, int tile) {
    // Matrices are in x, in which a grid has 2^31 - 1 blocks. In y and z it has 65,535.
    return dim3(unsigned(blocks(weight.n, columns) * matrices), unsigned(std::min<int64_t>(blocks(rows.count, tile), tiles_max)));
  };
  if (expected <= 16)
    launch(ctx, product<1, 1, 1, 64, Weight>, grid(32, 16), kProductThreads, 0, x, weight, bias, out, rows);
  else
    launch(ctx, product<2, 2, 4, 32, Weight>, grid(64, 64), kProductThreads, 0, x, weight, bias, out, rows);
}

}  // namespace fkr
