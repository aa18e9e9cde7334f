// SPDX-License-Identifier: Apache-2.0
// token_logprob, topk_logprobs: a cluster of blocks reads a row of logits once, for its largest
// value and the sum of exponentials. For the top logits, every block makes a list, and the first
// block merges the lists.
#include "fk/ops/token_logprob.h"
#include "fk/ops/topk_logprobs.h"
#include "parts/cluster.cuh"
#include "parts/op.cuh"
#include "parts/sort_key.cuh"

namespace {
using namespace fkc;
constexpr int kThreads = kManyThreads, kBlocks = 8, kAtOnce = 8, kTopMost = 64;
using u64 = unsigned long long;

// The largest of some values, and the sum of exp(value - largest).
struct Mass {
  float most = -INFINITY, sum = 0;
  __device__ void add(float other_most, float other_sum) {
    const float both = fmaxf(most, other_most);
    if (both == -INFINITY) return;
    sum = sum * __expf(most - both) + other_sum * __expf(other_most - both);
    most = both;
  }
  __device__ void over_lanes(int count) {
    for (int k = count / 2; k > 0; k /= 2) add(__shfl_xor_sync(0xffffffffu, most, k), __shfl_xor_sync(0xffffffffu, sum, k));
  }
  __device__ u64 packed() const { return u64(__float_as_uint(most)) << 32 | __float_as_uint(sum); }
  __device__ static Mass of(u64 bits) { return {__uint_as_float(uint32_t(bits >> 32)), __uint_as_float(uint32_t(bits))}; }
  // The sum is at least 1. The fast logarithm is inexact near 1.
  __device__ float logarithm() const { return log1pf(sum - 1.F); }
};

// Shared memory of a block: a mass of every warp and of the block, keys of every warp, and the
// list.
struct Shared {
  u64 masses[32], mass, keys[32], best, list[kTopMost];
};

// The mass of this thread's part of a row.
template <class T> __device__ Mass mass_of(const T* row, int width, int part) {
  Mass mine;
  for (int i = part * kThreads + int(threadIdx.x); i < width; i += kBlocks * kThreads * kAtOnce) {
    float v[kAtOnce], most = -INFINITY, sum = 0;
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int at = i + k * kBlocks * kThreads;
      v[k] = at < width ? to_float(row[at]) : -INFINITY;
      most = fmaxf(most, v[k]);
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) sum += v[k] == -INFINITY ? 0.F : __expf(v[k] - most);
    mine.add(most, sum);
  }
  return mine;
}
// Adds the masses of the block. Other blocks can read the sum after cluster_sync().
__device__ void share_mass(Mass mine, Shared* shared) {
  const int lane = int(threadIdx.x) % 32;
  mine.over_lanes(32);
  if (lane == 0) shared->masses[threadIdx.x / 32] = mine.packed();
  __syncthreads();
  if (threadIdx.x < 32) {
    mine = lane < kThreads / 32 ? Mass::of(shared->masses[lane]) : Mass{};
    mine.over_lanes(32);
    if (lane == 0) shared->mass = mine.packed();
  }
}
// The mass of all blocks of the cluster, by the first warp of any block, between two
// cluster_sync().
__device__ Mass mass_of_row(Shared* shared) {
  const int lane = int(threadIdx.x) % 32;
  Mass all;
  if (lane < kBlocks) all = Mass::of(dsmem_load_u64(map_shared_rank(shared_address(&shared->mass), unsigned(lane))));
  all.over_lanes(32);
  return all;
}

template <class T>
__global__ void __launch_bounds__(kThreads) token_logprob(const T* logits, const int64_t* tokens, float* logprob, int width) {
  auto* const shared = reinterpret_cast<Shared*>(dynamic_shared());
  const int row = int(blockIdx.x) / kBlocks, part = int(blockIdx.x) % kBlocks;
  wait_for_inputs();
  logits += int64_t(row) * width;
  share_mass(mass_of(logits, width, part), shared);
  cluster_sync();
  if (part == 0 && threadIdx.x < 32) {
    const Mass all = mass_of_row(shared);
    if (threadIdx.x == 0) logprob[row] = to_float(logits[tokens[row]]) - all.most - all.logarithm();
  }
  cluster_sync();  // shared memory must last while the first block reads it
}

template <class T>
__global__ void __launch_bounds__(kThreads)
topk_logprobs(const T* logits, const int64_t* offsets, int64_t* tokens, float* logprobs, int width, int count) {
  auto* const shared = reinterpret_cast<Shared*>(dynamic_shared());
  const int row = int(blockIdx.x) / kBlocks, part = int(blockIdx.x) % kBlocks, lane = int(threadIdx.x) % 32;
  wait_for_inputs();
  logits += int64_t(row) * width;
  share_mass(mass_of(logits, width, part), shared);
  // The largest key of this thread below `below`; 0: no key.
  const auto next = [&](u64 below) {
    u64 best = 0;
#pragma unroll 8
    for (int i = part * kThreads + int(threadIdx.x); i < width; i += kBlocks * kThreads) {
      const u64 key = sort_key(to_float(logits[i]), uint32_t(i));
      if (key < below && key > best) best = key;
    }
    return best;
  };
  u64 mine = next(~u64{0});
  for (int k = 0; k < count; ++k) {
    const u64 of_warp = warp_max(mine);
    if (lane == 0) shared->keys[threadIdx.x / 32] = of_warp;
    __syncthreads();
    if (threadIdx.x < 32) {
      const u64 best = warp_max(lane < kThreads / 32 ? shared->keys[lane] : 0);
      if (lane == 0) shared->best = shared->list[k] = best;
    }
    __syncthreads();
    if (mine && mine == shared->best) mine = next(mine);
  }
  cluster_sync();
  if (part == 0 && threadIdx.x < 32) {
    const Mass all = mass_of_row(shared);
    // Lane i goes down the list of block i.
    int place = 0;
    const auto head = [&] {
      return lane < kBlocks && place < count ? dsmem_load_u64(map_shared_rank(shared_address(&shared->list[place]), unsigned(lane))) : u64{0};
    };
    u64 own = head();
    for (int k = 0; k < count; ++k) {
      const u64 best = warp_max(own);
      if (lane == 0) {
        const uint32_t index = index_of_key(best);
        tokens[int64_t(row) * count + k] = int64_t(index) + (offsets ? offsets[index] : 0);
        logprobs[int64_t(row) * count + k] = to_float(logits[index]) - all.most - all.logarithm();
      }
      if (own == best) ++place, own = head();
    }
  }
  cluster_sync();
}

template <class F> void with_logits(const fk_in* logits, F f) {
  FK_DTYPE(logits) == FK_F32 ? f(fk::data<float>(logits)) : f(fk::data<__nv_bfloat16>(logits));
}
void need_rows(int64_t vocab_size, const fk_in* logits) {
  need(vocab_size < int64_t{1} << 30, "vocab_size: up to 2^30");
  need(logits->shape[0] < int64_t{1} << 28, "rows: up to 2^28");
}
struct TokenLogprob : Base<fk::token_logprob> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) { need_rows(init.vocab_size, max.logits); }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t rows = a.logits->shape[0];
    if (!rows) return;
    with_logits(a.logits, [&](auto* logits) {
      launch_clusters(token_logprob<std::remove_const_t<std::remove_pointer_t<decltype(logits)>>>, dim3(kBlocks), unsigned(rows * kBlocks), kThreads,
                      sizeof(Shared), ctx, logits, fk::data<int64_t>(a.tokens), fk::data<float>(a.logprob), int(init.vocab_size));
    });
  }
};
struct TopkLogprobs : Base<fk::topk_logprobs> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_rows(init.vocab_size, max.logits);
    need(init.top_k <= kTopMost && init.top_k <= init.vocab_size, "top_k: up to 64, and up to the vocabulary");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t rows = a.logits->shape[0];
    if (!rows) return;
    with_logits(a.logits, [&](auto* logits) {
      launch_clusters(topk_logprobs<std::remove_const_t<std::remove_pointer_t<decltype(logits)>>>, dim3(kBlocks), unsigned(rows * kBlocks), kThreads,
                      sizeof(Shared), ctx, logits, fk::data<int64_t>(weights.offsets), fk::data<int64_t>(a.tokens), fk::data<float>(a.logprobs),
                      int(init.vocab_size), int(init.top_k));
    });
  }
};
FK_OP(token_logprob, TokenLogprob);
FK_OP(topk_logprobs, TopkLogprobs);

}  // namespace
