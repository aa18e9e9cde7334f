// SPDX-License-Identifier: Apache-2.0
// linear and moe_grouped_gemm on the double-precision tensor cores: tiles are converted to double in shared
// memory, 128 threads multiply them, sums stay in double. One kernel serves both ops: rows are read and
// written through maps. An output's sum runs over k in the same order in every tile, so it does not depend
// on how many rows there are.
#include "common.cuh"
#include "fk/ops/linear.h"
#define FK_MOE_GROUPED_GEMM_EDITION 2
#include "fk/ops/moe_grouped_gemm.h"

namespace {
using namespace fkr;
constexpr int kThreads = 128, kDepth = 32, kStride = kDepth + 4;  // of k; the padding spreads rows over banks
constexpr int kColumns = 64;

// Where the rows of one product come from and go to.
struct Rows {
  const int32_t *ids, *offsets;  // grouped: row_ids and expert_offsets; otherwise null
  int64_t top_k, count;          // plain: number of rows
};

// c[16][8] += a[16][4] b[4][8]. Lane l holds a at rows l/4 and l/4+8 of column l%4, b at row l%4 of column
// l/4, c at those rows and columns 2(l%4) and the next.
__device__ inline void multiply(double (&c)[4], double a0, double a1, double b) {
  asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
      : "d"(a0), "d"(a1), "d"(b));
}

// A block's tile has kWarpRows x (4 / kWarpRows) warps of kFragments 16 x 8 fragments over and kAcross beside
// each other. blockIdx: x column tile, y row tile, z expert.
template <int kWarpRows, int kFragments, int kAcross>
__global__ void __launch_bounds__(kThreads) product(Ref x, Ref weight, Ref bias, Ref out, Rows rows, int64_t n, int64_t k) {
  constexpr int kRows = kWarpRows * kFragments * 16;
  static_assert(4 / kWarpRows * kAcross * 8 == kColumns);
  __shared__ double a[kRows][kStride], b[kColumns][kStride];
  __shared__ int64_t source[kRows];
  const int64_t expert = blockIdx.z, first = int64_t(blockIdx.x) * kColumns;
  const int64_t begin = rows.offsets ? rows.offsets[expert] : 0, end = rows.offsets ? rows.offsets[expert + 1] : rows.count;
  const int lane = int(threadIdx.x % 32), warp = int(threadIdx.x / 32), g = lane / 4, t = lane % 4;
  const int wr = warp % kWarpRows * kFragments * 16, wc = warp / kWarpRows * kAcross * 8;
  for (int64_t tile = begin + int64_t(blockIdx.y) * kRows; tile < end; tile += int64_t(gridDim.y) * kRows) {
    double sum[kFragments][kAcross][4] = {};
    for (int r = int(threadIdx.x); r < kRows; r += kThreads) {
      const int64_t row = tile + r;
      source[r] = row < end ? (rows.ids ? rows.ids[row] / rows.top_k : row) * x.stride[0] : -1;
    }
    __syncthreads();
    for (int64_t k0 = 0; k0 < k; k0 += kDepth) {
      const bool inside = k0 + lane < k;
#pragma unroll 4
      for (int r = warp; r < kRows; r += 4) a[r][lane] = inside && source[r] >= 0 ? load(x, source[r] + k0 + lane) : 0;
#pragma unroll 4
      for (int r = warp; r < kColumns; r += 4)
        b[r][lane] = inside && first + r < n ? load(weight, (expert * n + first + r) * k + k0 + lane) : 0;
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
          const double added = bias.data ? load(bias, expert * n + column) : 0;
          store(out, (rows.ids ? rows.ids[row] : row) * n + column, sum[f][c][e] + added);
        }
      }
    }
  }
}

// `tiles_max` bounds the row tiles that run beside each other; `expected` is how many rows an expert may have.
void multiply_rows(Ref x, Ref weight, Ref bias, Ref out, const Rows& rows, int64_t m, int64_t expected, int64_t experts, int64_t n, int64_t k,
                   int64_t tiles_max, cudaStream_t stream) {
  const auto grid = [&](int tile) {
    return dim3(blocks(n, kColumns), unsigned(std::min<int64_t>(blocks(m, tile), tiles_max)), unsigned(experts));
  };
  if (expected <= 16)
    product<1, 1, 2><<<grid(16), kThreads, 0, stream>>>(x, weight, bias, out, rows, n, k);
  else
    product<2, 2, 4><<<grid(64), kThreads, 0, stream>>>(x, weight, bias, out, rows, n, k);
  launched();
}

struct Linear : Plain<fk::linear> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t m = a.x->shape[0];
    if (!m) return;
    multiply_rows(ref(a.x), ref(weights.weight), ref(weights.bias), ref(a.out), Rows{nullptr, nullptr, 1, m}, m, m, 1, init.out_features,
                  init.in_features, 65535, stream(ctx));
  }
};
struct MoeGroupedGemm : Plain<fk::moe_grouped_gemm> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t rows = a.row_ids->shape[0];
    if (!rows) return;
    const Rows map{fk::data<int32_t>(a.row_ids), fk::data<int32_t>(a.expert_offsets), init.top_k, rows};
    multiply_rows(ref(a.x), ref(weights.weight), ref(weights.bias), ref(a.out), map, rows, 2 * rows / init.num_experts, init.num_experts,
                  init.out_features, init.in_features, 64, stream(ctx));
  }
};
FK_OP(linear, Linear);
FK_OP(moe_grouped_gemm, MoeGroupedGemm);

}  // namespace
