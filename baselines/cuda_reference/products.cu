// SPDX-License-Identifier: Apache-2.0
// linear and moe_grouped_gemm: 32x32 tiles in shared memory, 256 threads with four outputs each, sums in
// double. One kernel serves both: rows are read and written through maps.
#include "common.cuh"
#include "fk/ops/linear.h"
#define FK_MOE_GROUPED_GEMM_EDITION 2
#include "fk/ops/moe_grouped_gemm.h"

namespace {
using namespace fkr;
constexpr int kTile = 32;

// Where the rows of one product come from and go to.
struct Rows {
  const int32_t *ids, *offsets;  // grouped: row_ids and expert_offsets; otherwise null
  int64_t top_k, count;          // plain: number of rows
};

// blockIdx: x column tile, y row tile, z expert.
__global__ void product(Ref x, Ref weight, Ref bias, Ref out, Rows rows, int64_t n, int64_t k) {
  __shared__ double a[kTile][kTile + 1], b[kTile][kTile + 1];
  const int64_t expert = blockIdx.z;
  const int64_t begin = rows.offsets ? rows.offsets[expert] : 0, end = rows.offsets ? rows.offsets[expert + 1] : rows.count;
  const int tx = int(threadIdx.x % kTile), ty = int(threadIdx.x / kTile);  // ty < 8
  const int64_t column = int64_t(blockIdx.x) * kTile + tx;
  for (int64_t tile = begin + int64_t(blockIdx.y) * kTile; tile < end; tile += int64_t(gridDim.y) * kTile) {
    double sum[4] = {0, 0, 0, 0};
    for (int64_t k0 = 0; k0 < k; k0 += kTile) {
      for (int r = ty; r < kTile; r += 8) {
        const int64_t row = tile + r, w = int64_t(blockIdx.x) * kTile + r;
        const int64_t source = row < end ? (rows.ids ? rows.ids[row] / rows.top_k : row) : 0;
        a[r][tx] = row < end && k0 + tx < k ? load(x, source * x.stride[0] + k0 + tx) : 0;
        b[r][tx] = w < n && k0 + tx < k ? load(weight, (expert * n + w) * k + k0 + tx) : 0;
      }
      __syncthreads();
      for (int i = 0; i < kTile; ++i) {
        for (int r = 0; r < 4; ++r) sum[r] += a[ty + 8 * r][i] * b[tx][i];
      }
      __syncthreads();
    }
    for (int r = 0; r < 4; ++r) {
      const int64_t row = tile + ty + 8 * r;
      if (row >= end || column >= n) continue;
      store(out, (rows.ids ? rows.ids[row] : row) * n + column, sum[r] + (bias.data ? load(bias, expert * n + column) : 0));
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
