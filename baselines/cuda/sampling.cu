// SPDX-License-Identifier: Apache-2.0
// sample_tokens: a cluster of blocks finds the largest logit of a row. Its first block then
// samples, if the row's temperature is above 0. Tokens are ordered by 64-bit keys (larger logit
// first, then lower index). So every choice is the first key at which the sum of units from the top
// reaches a target. Histograms find it digit by digit. Units are whole numbers (counts, or
// probabilities in fixed point), so sums do not depend on the order of atomic additions.
#include "fk/ops/sample_tokens.h"
#include "parts/cluster.cuh"
#include "parts/op.cuh"
#include "parts/sort_key.cuh"

namespace {
using namespace fkc;
constexpr int kThreads = kManyThreads, kDigits = 256, kBlocks = 8;  // of a row
constexpr double kUnit = 1099511627776.0;  // 2^40 for the most probable token
using u64 = unsigned long long;

struct Row {
  const float* logits;
  int width;
  float most, inverse_temperature;  // 0: every element counts one
  __device__ u64 units(float v) const {
    return inverse_temperature == 0 ? 1 : u64(exp(double((v - most) * inverse_temperature)) * kUnit);
  }
};

// The sum of the units of all keys from `least` on, in every thread.
__device__ u64 total_of(const Row& row, u64 least, u64* shared) {
  if (threadIdx.x == 0) *shared = 0;
  __syncthreads();
  u64 sum = 0;
  for (int i = threadIdx.x; i < row.width; i += kThreads)
    if (sort_key(row.logits[i], i) >= least) sum += row.units(row.logits[i]);
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) atomicAdd(shared, sum);
  __syncthreads();
  const u64 all = *shared;
  __syncthreads();
  return all;
}

// The largest key, not below `least`, at which the units from the top reach `target`; `least` if
// they never do.
__device__ u64 reach(const Row& row, u64 target, u64 least, u64* bins, u64* found) {
  u64 prefix = 0;
  for (int shift = 56; shift >= 0; shift -= 8) {
    for (int d = threadIdx.x; d < kDigits; d += kThreads) bins[d] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < row.width; i += kThreads) {
      const u64 key = sort_key(row.logits[i], i);
      if (key < least || (shift < 56 && key >> (shift + 8) != prefix)) continue;
      const u64 units = row.units(row.logits[i]);
      if (units) atomicAdd(bins + (key >> shift & 255), units);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      found[0] = ~u64{0};
      for (int d = kDigits - 1; d >= 0; --d) {
        if (bins[d] >= target) {
          found[0] = u64(d);
          break;
        }
        target -= bins[d];
      }
      found[1] = target;
    }
    __syncthreads();
    const u64 digit = found[0];
    target = found[1];
    if (digit == ~u64{0}) return least;
    prefix = prefix << 8 | digit;
  }
  return prefix;
}

__global__ void __launch_bounds__(kThreads)
sample(const float* logits, const float* temperature, const int32_t* top_k, const float* top_p, const float* uniform, int64_t* tokens,
       int width) {
  auto* const bins = reinterpret_cast<u64*>(dynamic_shared()), *const found = bins + kDigits;
  u64& best = found[2];
  const int b = blockIdx.x / kBlocks, part = blockIdx.x % kBlocks;
  wait_for_inputs();
  logits += int64_t(b) * width;
  if (threadIdx.x == 0) best = 0;
  __syncthreads();
  u64 mine = 0;
#pragma unroll 8
  for (int i = part * kThreads + threadIdx.x; i < width; i += kBlocks * kThreads) {
    const u64 key = sort_key(logits[i], i);
    mine = key > mine ? key : mine;
  }
  mine = warp_max(mine);
  if (threadIdx.x % 32 == 0) atomicMax(&best, mine);
  cluster_sync();
  if (part == 0 && threadIdx.x < kBlocks) {
    atomicMax(&best, dsmem_load_u64(map_shared_rank(shared_address(&best), threadIdx.x)));
  }
  cluster_sync();  // shared memory must last while the first block reads it
  if (part) return;
  u64 token = best;
  if (temperature[b] > 0) {
    Row row{logits, width, logits[index_of_key(best)], 0};
    u64 least = 0;
    if (top_k[b] > 0 && top_k[b] < width) least = reach(row, u64(top_k[b]), 0, bins, found);
    row.inverse_temperature = 1.F / temperature[b];
    if (top_p[b] < 1) {
      const u64 all = total_of(row, least, bins);
      const u64 target = u64(ceil(double(top_p[b]) * double(all)));
      least = max(least, reach(row, target > 0 ? target : 1, least, bins, found));
    }
    const u64 all = total_of(row, least, bins);
    token = reach(row, u64(double(uniform[b]) * double(all)) + 1, least, bins, found);
    // Rounding may make the target larger than the sum.
    if (token == 0) token = best;
  }
  if (threadIdx.x == 0) tokens[b] = index_of_key(token);
}

struct SampleTokens : Base<fk::sample_tokens> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need(FK_DTYPE(max.logits) == FK_F32, "logits: float32 only");
    need(init.vocab_size < (1 << 23), "vocab_size: up to 2^23");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    if (!a.logits->shape[0]) return;
    launch_clusters(sample, dim3(kBlocks), unsigned(a.logits->shape[0] * kBlocks), kThreads, (kDigits + 3) * sizeof(u64), ctx, fk::data<float>(a.logits), fk::data<float>(a.temperature), fk::data<int32_t>(a.top_k), fk::data<float>(a.top_p),
        fk::data<float>(a.uniform), fk::data<int64_t>(a.tokens), int(init.vocab_size));
  }
};
FK_OP(sample_tokens, SampleTokens);

}  // namespace
