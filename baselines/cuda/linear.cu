// SPDX-License-Identifier: Apache-2.0
// linear for up to 16 rows of x, which is bound by reading the weights. A block makes 16 columns of out; its
// eight warps share K. Tensor cores do the arithmetic with the weights as the matrix of 16 rows: the order of K
// inside a step of 32 is free, so a lane loads 16 consecutive bytes of two weight rows and of one row of x and
// has the fragments of two mma.m16n8k16. The first weights are requested before the kernel waits for the kernel
// before it, which writes x.
#include "common.cuh"
#include "fk/ops/linear.h"

namespace {
using namespace fkc;
constexpr int kWarps = 8, kRows = 16, kAhead = 4;  // steps of 32 elements that are in flight

// Weights are read once: they should not push anything out of the first cache.
__device__ uint4 load_once(const void* from) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
  return v;
}

// kTiles: eight rows of x each.
template <class T, class O, int kTiles>
__global__ void __launch_bounds__(32 * kWarps) few_rows(const T* __restrict__ x, int64_t x_step, const T* __restrict__ weight, const O* bias, O* out,
                                                        int m, int n, int k) {
  __shared__ float part[kWarps][kTiles][kRows][8];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = blockIdx.x * kRows;
  const int steps = k / 32, begin = steps * warp / kWarps, end = steps * (warp + 1) / kWarps;
  const int offset = lane % 4 * 8;
  const T* rows[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) rows[h] = weight + int64_t(min(first + lane / 4 + 8 * h, n - 1)) * k + offset;

  uint4 w[kAhead][2];
#pragma unroll
  for (int i = 0; i < kAhead; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h)
      if (begin + i < end) w[i][h] = load_once(rows[h] + (begin + i) * 32);
  wait_for_inputs();
  float acc[kTiles][4] = {};
  for (int step = begin; step < end; step += kAhead) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (step + i >= end) break;
      const uint4 low = w[i][0], high = w[i][1];
      if (step + i + kAhead < end) {
#pragma unroll
        for (int h = 0; h < 2; ++h) w[i][h] = load_once(rows[h] + (step + i + kAhead) * 32);
      }
      const uint32_t one[4] = {low.x, high.x, low.y, high.y}, two[4] = {low.z, high.z, low.w, high.w};
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const int row = tile * 8 + lane / 4;
        uint4 b = make_uint4(0, 0, 0, 0);
        if (row < m) b = *reinterpret_cast<const uint4*>(x + row * x_step + (step + i) * 32 + offset);
        multiply<T>(acc[tile], one, b.x, b.y);
        multiply<T>(acc[tile], two, b.z, b.w);
      }
    }
  }
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
    for (int j = 0; j < 4; ++j) part[warp][tile][lane / 4 + (j >> 1) * 8][lane % 4 * 2 + (j & 1)] = acc[tile][j];
  __syncthreads();
  for (int i = threadIdx.x; i < kTiles * 8 * kRows; i += 32 * kWarps) {
    const int column = i % kRows, row = i / kRows;
    if (row >= m || first + column >= n) continue;
    float sum = 0;
#pragma unroll
    for (int v = 0; v < kWarps; ++v) sum += part[v][row / 8][column][row % 8];
    if (bias) sum += value_of(bias[first + column]);
    out[int64_t(row) * n + first + column] = as<O>(sum);
  }
}

struct Linear : Base<fk::linear> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need&) {
    need_16bit(max.x);
    need(max.x->shape[0] <= 16, "up to 16 rows of x only");
    need(FK_DTYPE(weights.weight) == FK_DTYPE(max.x), "weight: the dtype of x only");
    need(FK_DTYPE(max.out) == FK_DTYPE(max.x) || FK_DTYPE(max.out) == FK_F32, "out: the dtype of x, or float32");
    need(!weights.bias.or_null || FK_DTYPE(weights.bias.or_null) == FK_DTYPE(max.out), "bias: the dtype of out only");
    need(init.in_features % 32 == 0, "in_features: a multiple of 32 only");
    need_aligned(max.x);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int m = int(a.x->shape[0]);
    if (!m) return;
    dispatch(a.x, [&](auto type) {
      using T = decltype(type);
      const auto run = [&](auto out_type) {
        using O = decltype(out_type);
        const auto go = [&](auto kernel) {
          launch(kernel, dim3(unsigned(cdiv(init.out_features, kRows))), dim3(32 * kWarps), 0, ctx, fk::data<T>(a.x), a.x->strides[0],
                 fk::data<T>(weights.weight), fk::data<O>(weights.bias), fk::data<O>(a.out), m, int(init.out_features), int(init.in_features));
        };
        m <= 8 ? go(few_rows<T, O, 1>) : go(few_rows<T, O, 2>);
      };
      if (FK_DTYPE(a.out) == FK_F32) run(float{});
      else run(T{});
    });
  }
};
FK_OP(linear, Linear);

}  // namespace
