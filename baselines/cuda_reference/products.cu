// SPDX-License-Identifier: Apache-2.0
// linear and moe_grouped_gemm: 64x64 tiles in shared memory, 256 threads with 4x4 outputs each, sums in double in
// the order of K. One kernel serves both: rows are read and written through maps.
#include "common.cuh"
#include "fk/ops/linear.h"
#define FK_MOE_GROUPED_GEMM_EDITION 2
#include "fk/ops/moe_grouped_gemm.h"

namespace {
using namespace fkr;
constexpr int kTile = 64, kDepth = 16, kEach = 4;

// Where the rows of one product come from and go to.
struct Rows {
  const int32_t *ids, *offsets;  // grouped: row_ids and expert_offsets; otherwise null
  int64_t top_k, count;          // plain: number of rows
};

// blockIdx: x column tile, y row tile, z expert.
__global__ void __launch_bounds__(256) product(Ref x, Ref weight, Ref bias, Ref out, Rows rows, int64_t n, int64_t k) {
  __shared__ double a[kDepth][kTile + 1], b[kDepth][kTile + 1];
  const int64_t expert = blockIdx.z, first = int64_t(blockIdx.x) * kTile;
  const int64_t begin = rows.offsets ? rows.offsets[expert] : 0, end = rows.offsets ? rows.offsets[expert + 1] : rows.count;
  const int tx = int(threadIdx.x % 16), ty = int(threadIdx.x / 16);  // outputs: columns tx + 16 * j, rows ty + 16 * i
  for (int64_t tile = begin + int64_t(blockIdx.y) * kTile; tile < end; tile += int64_t(gridDim.y) * kTile) {
    double sum[kEach][kEach] = {};
    for (int64_t k0 = 0; k0 < k; k0 += kDepth) {
      for (int r = ty; r < kTile; r += 16) {
        const int64_t row = tile + r, column = first + r;
        const int64_t source = row < end ? (rows.ids ? rows.ids[row] / rows.top_k : row) : 0;
        a[tx][r] = row < end && k0 + tx < k ? load(x, source * x.stride[0] + k0 + tx) : 0;
        b[tx][r] = column < n && k0 + tx < k ? load(weight, (expert * n + column) * k + k0 + tx) : 0;
      }
      __syncthreads();
#pragma unroll
      for (int d = 0; d < kDepth; ++d) {
        double u[kEach], v[kEach];
#pragma unroll
        for (int i = 0; i < kEach; ++i) u[i] = a[d][ty + 16 * i], v[i] = b[d][tx + 16 * i];
#pragma unroll
        for (int i = 0; i < kEach; ++i)
#pragma unroll
          for (int j = 0; j < kEach; ++j) sum[i][j] += u[i] * v[j];
      }
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i)
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const int64_t row = tile + ty + 16 * i, column = first + tx + 16 * j;
        if (row >= end || column >= n) continue;
        store(out, (rows.ids ? rows.ids[row] : row) * n + column, sum[i][j] + (bias.data ? load(bias, expert * n + column) : 0));
      }
  }
}

struct Linear : Plain<fk::linear> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t m = a.x->shape[0];
    if (!m) return;
    const dim3 grid(blocks(init.out_features, kTile), unsigned(std::min<int64_t>(blocks(m, kTile), 65535)));
    product<<<grid, 256, 0, stream(ctx)>>>(ref(a.x), ref(weights.weight), ref(weights.bias), ref(a.out), Rows{nullptr, nullptr, 1, m}, init.out_features, init.in_features);
    launched();
  }
};
struct MoeGroupedGemm : Plain<fk::moe_grouped_gemm> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t rows = a.row_ids->shape[0];
    if (!rows) return;
    const dim3 grid(blocks(init.out_features, kTile), unsigned(std::min<int64_t>(blocks(rows, kTile), 64)), unsigned(init.num_experts));
    product<<<grid, 256, 0, stream(ctx)>>>(ref(a.x), ref(weights.weight), ref(weights.bias), ref(a.out),
                                           Rows{fk::data<int32_t>(a.row_ids), fk::data<int32_t>(a.expert_offsets), init.top_k, rows}, init.out_features, init.in_features);
    launched();
  }
};
FK_OP(linear, Linear);
FK_OP(moe_grouped_gemm, MoeGroupedGemm);

}  // namespace
