// SPDX-License-Identifier: Apache-2.0
// The parts of mixtures for many tokens: the sort by expert, the grouped GEMM on mma.sync
// (parts/gemm_tile.cuh), and the weighted sum.
#define FK_MOE_GROUPED_GEMM_EDITION 2
#include "../parts/gemm_tile.cuh"
#include "../parts/op.cuh"
#include "fk/ops/moe_align.h"
#include "fk/ops/moe_grouped_gemm.h"
#include "fk/ops/moe_sum.h"

namespace {
using namespace fkc;

// One block. A warp finds the assignments of an expert in order, 32 at a time, so the sort is
// stable.
constexpr int kExpertsMax = 256;
__global__ void __launch_bounds__(1024) align(const int32_t* ids, int32_t* row_ids, int32_t* offsets, int count, int experts) {
  __shared__ int starts[kExpertsMax + 1];
  wait_for_inputs();
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  for (int e = threadIdx.x / 32; e < experts; e += warps) {
    int found = 0;
    for (int i = lane; i < count; i += 32) found += ids[i] == e;
    found = warp_sum(found);
    if (lane == 0) starts[e + 1] = found;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    starts[0] = 0;
    for (int e = 0; e < experts; ++e) starts[e + 1] += starts[e];
  }
  __syncthreads();
  for (int e = threadIdx.x; e <= experts; e += blockDim.x) offsets[e] = starts[e];
  for (int e = threadIdx.x / 32; e < experts; e += warps) {
    int at = starts[e];
    for (int first = 0; first < count; first += 32) {
      const bool mine = first + lane < count && ids[first + lane] == e;
      const unsigned who = __ballot_sync(0xffffffffu, mine);
      if (mine) row_ids[at + __popc(who & ((1u << lane) - 1))] = first + lane;
      at += __popc(who);
    }
  }
}

struct MoeAlign : Base<fk::moe_align> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need(init.num_experts <= kExpertsMax, "num_experts: up to 256");
    need(max.topk_ids->shape[0] * max.topk_ids->shape[1] < (int64_t{1} << 31), "topk_ids: fewer than 2^31");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int warps = int(std::min<int64_t>(init.num_experts, 32));
    launch(align, 1, unsigned(32 * std::max(warps, 1)), 0, ctx, fk::data<int32_t>(a.topk_ids), fk::data<int32_t>(a.row_ids), fk::data<int32_t>(a.expert_offsets),
           int(a.topk_ids->shape[0] * a.topk_ids->shape[1]), int(init.num_experts));
  }
};

// A thread sums eight columns of a token over its experts, in their order.
template <class T> __global__ void weighted_sum(const T* x, const float* weights, T* out, int64_t tokens, int vectors, int top_k) {
  wait_for_inputs();
  const int64_t i = item_of_thread(), t = i / vectors;
  if (t >= tokens) return;
  float sum[8] = {};
  for (int k = 0; k < top_k; ++k) {
    const Vec8<T> row = load8(x + ((t * top_k + k) * vectors + i % vectors) * 8);
#pragma unroll
    for (int j = 0; j < 8; ++j) sum[j] += weights[t * top_k + k] * to_float(row.at[j]);
  }
  Vec8<T> o;
#pragma unroll
  for (int j = 0; j < 8; ++j) o.at[j] = from_float<T>(sum[j]);
  store8(out + i * 8, o);
}

struct MoeSum : Base<fk::moe_sum> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_16bit(max.x);
    need(FK_DTYPE(max.out) == FK_DTYPE(max.x), "out: the dtype of x only");
    need(init.size % 8 == 0, "size: a multiple of 8 only");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t tokens = a.topk_weights->shape[0], vectors = init.size / 8;
    if (!tokens) return;
    dispatch(a.x, [&](auto type) {
      using T = decltype(type);
      launch(weighted_sum<T>, blocks_of(tokens * vectors), kItemThreads, 0, ctx, fk::data<T>(a.x), fk::data<float>(a.topk_weights), fk::data<T>(a.out), tokens,
             int(vectors), int(a.topk_weights->shape[1]));
    });
  }
};

// blockIdx.x: tile of columns of out; blockIdx.y: tile of assignments, counted over all experts.
template <class T>
__global__ void __launch_bounds__(kTileThreads) grouped_gemm_mma(const T* __restrict__ x, const T* __restrict__ weight, const int32_t* __restrict__ row_ids,
                                                    const int32_t* __restrict__ offsets, T* __restrict__ out, int experts, int top_k, int n, int k) {
  char* const shared = dynamic_shared();
  __shared__ int source[kTile], target[kTile];  // -1: no row
  wait_for_inputs();
  int tile = blockIdx.y, expert = 0, begin = 0, end = 0;
  for (; expert < experts; ++expert) {
    begin = offsets[expert], end = offsets[expert + 1];
    const int own = (end - begin + kTile - 1) / kTile;
    if (tile < own) break;
    tile -= own;
  }
  if (expert == experts) return;
  begin += tile * kTile;
  const int first = blockIdx.x * kTile;
  if (threadIdx.x < kTile) {
    const int id = begin + int(threadIdx.x) < end ? row_ids[begin + threadIdx.x] : -1;
    target[threadIdx.x] = id;
    source[threadIdx.x] = id < 0 ? -1 : id / top_k;
  }
  __syncthreads();

  const int chunk = threadIdx.x % 8;
  const T* a_from[4];
  const T* b_from[4];
  bool a_there[4], b_there[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = i * 32 + threadIdx.x / 8;
    a_there[i] = source[row] >= 0;
    a_from[i] = x + int64_t(a_there[i] ? source[row] : 0) * k + chunk * 8;
    b_there[i] = first + row < n;
    b_from[i] = weight + (int64_t(expert) * n + (b_there[i] ? first + row : 0)) * k + chunk * 8;
  }
  float acc[4][4][4];
  tile_product<T>(shared, (k + kDepth - 1) / kDepth, acc, [&](int step, uint32_t a_side, uint32_t b_side) {
    const bool inside = step * kDepth + chunk * 8 < k;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = i * 32 + threadIdx.x / 8;
      const int64_t skip = inside ? int64_t(step) * kDepth : -chunk * 8;
      cp_async_16(in_tile(a_side, row, chunk), a_from[i] + skip, inside && a_there[i]);
      cp_async_16(in_tile(b_side, row, chunk), b_from[i] + skip, inside && b_there[i]);
    }
  });
  each_of_tile(acc, [&](int row, int column, float v, float w) {
    if (target[row] >= 0 && first + column < n) *reinterpret_cast<uint32_t*>(out + int64_t(target[row]) * n + first + column) = pack2<T>(v, w);
  });
}

struct MoeGroupedGemm : Base<fk::moe_grouped_gemm> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need&) {
    need_16bit(max.x);
    need(FK_DTYPE(weights.weight) == FK_DTYPE(max.x), "weight: the dtype of x only");
    need(!weights.bias.or_null, "bias: none");
    need(init.in_features % 8 == 0 && init.out_features % 2 == 0, "in_features: a multiple of 8, out_features: even");
    need(init.out_features < (1 << 30) && init.in_features < (1 << 30), "features: fewer than 2^30");
    need(max.row_ids->shape[0] / kTile + init.num_experts < 65536, "row_ids: fewer");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t rows = a.row_ids->shape[0];
    if (!rows) return;
    // Every expert may have one partial tile.
    const dim3 grid(unsigned(cdiv(init.out_features, kTile)), unsigned(rows / kTile + std::min(rows, init.num_experts)));
    dispatch(a.x, [&](auto type) {
      using T = decltype(type);
      cudaFuncSetAttribute(grouped_gemm_mma<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, kTileShared);
      launch(grouped_gemm_mma<T>, grid, kTileThreads, kTileShared, ctx, fk::data<T>(a.x), fk::data<T>(weights.weight), fk::data<int32_t>(a.row_ids),
             fk::data<int32_t>(a.expert_offsets), fk::data<T>(a.out), int(init.num_experts), int(init.top_k), int(init.out_features), int(init.in_features));
    });
  }
};
FK_OP(moe_align, MoeAlign);
FK_OP(moe_sum, MoeSum);
FK_OP(moe_grouped_gemm, MoeGroupedGemm);

}  // namespace
