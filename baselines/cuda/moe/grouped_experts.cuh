// SPDX-License-Identifier: Apache-2.0
// All experts of a mixture for many tokens. Assignments are sorted by expert and their rows of x
// gathered. After two grouped GEMMs, a token's results are summed with weights, in the order of its
// choices.
#pragma once
#include "../parts/op.cuh"
#include "grouped_gemm.cuh"

namespace fkc {

namespace grouped {

constexpr int kSorters = 1024;

// The blocks of a cluster: sharing pays for more than 64 rows of x.
constexpr int pair_of(int most) { return most > 64 ? 2 : 1; }

// Block e writes the places of the assignments of expert e, in order, after the places of lower
// experts.
__global__ void __launch_bounds__(kSorters) sort_assignments(const int32_t* ids, int count, int32_t* offsets, int32_t* source, int32_t* place) {
  __shared__ int warps[kSorters / 32];
  const int expert = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  wait_for_inputs();
  int below = 0;
  for (int i = threadIdx.x; i < count; i += kSorters) below += ids[i] < expert;
  int at = __reduce_add_sync(0xffffffffu, below);
  if (lane == 0) warps[warp] = at;
  __syncthreads();
  at = __reduce_add_sync(0xffffffffu, warps[lane]);
  if (threadIdx.x == 0) {
    offsets[expert] = at;
    if (expert + 1 == int(gridDim.x)) offsets[gridDim.x] = count;
  }
  for (int from = 0; from < count; from += kSorters) {
    const int i = from + int(threadIdx.x);
    const bool mine = i < count && ids[i] == expert;
    const unsigned votes = __ballot_sync(0xffffffffu, mine);
    __syncthreads();
    if (lane == 0) warps[warp] = __popc(votes);
    __syncthreads();
    const int all = warps[lane], before = __reduce_add_sync(0xffffffffu, lane < warp ? all : 0);
    if (mine) {
      const int to = at + before + __popc(votes & ((1U << lane) - 1));
      source[to] = i;
      place[i] = to;
    }
    at += __reduce_add_sync(0xffffffffu, all);
  }
}

template <class T> __global__ void gather_sorted(const T* x, int64_t x_step, const int32_t* source, T* sorted, int channels, int top_k) {
  inputs_then_next();
  const T* from = x + source[blockIdx.x] / top_k * x_step;
  T* to = sorted + int64_t(blockIdx.x) * channels;
  for (int c = int(threadIdx.x) * 8; c < channels; c += int(blockDim.x) * 8) store8(to + c, load8(from + c));
}

template <class T> __global__ void combine(const T* results, const int32_t* place, const float* scales, T* out, int channels, int top_k) {
  wait_for_inputs();
  const int64_t token = blockIdx.x;
  for (int c = int(threadIdx.x) * 8; c < channels; c += int(blockDim.x) * 8) {
    float sum[8] = {};
    for (int k = 0; k < top_k; ++k) {
      const float scale = scales[token * top_k + k];
      const Vec8<T> from = load8(results + int64_t(place[token * top_k + k]) * channels + c);
#pragma unroll
      for (int j = 0; j < 8; ++j) sum[j] += scale * to_float(from.at[j]);
    }
    Vec8<T> to;
#pragma unroll
    for (int j = 0; j < 8; ++j) to.at[j] = from_float<T>(sum[j]);
    store8(out + token * channels + c, to);
  }
}

}  // namespace grouped

// The launches of a mixture. Weights are dense, with the dtype of x.
class ManyTokens {
 public:
  ManyTokens() = default;
  ManyTokens(int64_t channels, int64_t hidden, int64_t experts, int64_t top_k) : channels_(channels), hidden_(hidden), experts_(experts), top_k_(top_k) {}
  // Bytes of scratch for so many tokens: x and later the results by expert, the hidden rows, and
  // tables.
  int64_t bytes(int64_t tokens) const {
    const int64_t rows = tokens * top_k_;
    return cdiv(rows * channels_ * 2, 256) * 256 + cdiv(rows * hidden_ * 2, 256) * 256 + (2 * rows + experts_ + 1) * 4;
  }
  void prepare(const fk_in* w13, const fk_in* w2) {
    const bool bf16 = FK_DTYPE(w13) == FK_BF16;
    w13_ = grouped::map_of_gated(w13->data, experts_, hidden_, channels_, bf16);
    w2_ = grouped::map_of(w2->data, experts_ * channels_, hidden_, bf16, grouped::kRows);
  }
  template <class T> void forward(const T* x, int64_t x_step, const int32_t* ids, const float* scales, T* out, int64_t tokens, const fk_ctx& ctx) const {
    using namespace grouped;
    const int64_t rows = tokens * top_k_;
    char* at = static_cast<char*>(ctx.scratch);
    T* sorted = reinterpret_cast<T*>(at);
    T* activated = reinterpret_cast<T*>(at += cdiv(rows * channels_ * 2, 256) * 256);
    auto* source = reinterpret_cast<int32_t*>(at + cdiv(rows * hidden_ * 2, 256) * 256);
    int32_t *place = source + rows, *offsets = place + rows;
    const int channels = int(channels_), hidden = int(hidden_), top_k = int(top_k_), experts = int(experts_);
    launch(sort_assignments, unsigned(experts), kSorters, 0, ctx, ids, int(rows), offsets, source, place);
    launch(gather_sorted<T>, unsigned(rows), 256, 0, ctx, x, x_step, source, sorted, channels, top_k);
    // The tile has room for 1.5 times the average rows of an expert, or 1.25 if these are many. So
    // few experts need more than one tile. Smaller tiles have more stages, and so more weights in
    // flight.
    const int64_t typical = cdiv(rows * 3, experts_ * 2);
    const auto both = [&](auto most) {
      constexpr int kMost = decltype(most)::value;
      product<true, kMost>(sorted, w13_, Arguments<T>{activated, offsets, experts, experts, 0, hidden, channels}, rows, ctx);
      product<false, kMost>(activated, w2_, Arguments<T>{sorted, offsets, experts, experts, 0, channels, hidden}, rows, ctx);
    };
    if (typical <= 64) both(std::integral_constant<int, 64>{});
    else if (typical <= 128) both(std::integral_constant<int, 128>{});
    else if (typical <= 192) both(std::integral_constant<int, 160>{});
    else both(std::integral_constant<int, 256>{});
    launch(combine<T>, unsigned(tokens), 256, 0, ctx, sorted, place, scales, out, channels, top_k);
  }

 private:
  template <bool kGated, int kMost, class T> void product(const T* x, const CUtensorMap& weight, const grouped::Arguments<T>& a, int64_t rows, const fk_ctx& ctx) const {
    using namespace grouped;
    constexpr int kPair = pair_of(kMost);
    const auto kernel = grouped_gemm<T, kGated, kMost, kPair>;
    // An upper bound: every expert may have a partial tile.
    const int64_t high = std::min<int64_t>(rows / kMost + a.segments, rows), wide = cdiv(a.n, kPair * (kGated ? kRows / 2 : kRows));
    const int64_t at_once = max_active_clusters(kernel, kPair, kThreads, shared_bytes(kMost));
    launch_clusters(kernel, dim3(kPair), unsigned(kPair * std::min(at_once, high * wide)), kThreads, size_t(shared_bytes(kMost)), ctx,
                    map_of(x, rows, a.k, std::is_same_v<T, __nv_bfloat16>, step_of(kMost)), weight, a);
  }

  int64_t channels_ = 0, hidden_ = 0, experts_ = 0, top_k_ = 0;
  CUtensorMap w13_{}, w2_{};
};

}  // namespace fkc
