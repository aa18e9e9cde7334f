// SPDX-License-Identifier: Apache-2.0
// topk_softmax, moe_align, sample_tokens. Selections need a total order: larger value first, then lower
// index. It is the order of 64-bit keys (the value's bits made monotone, then the complement of the index), so
// "the first element at which the mass reaches a target" is a bisection over keys: no sort, no tie goes wrong.
#include "common.cuh"
#include "fk/ops/moe_align.h"
#include "fk/ops/sample_tokens.h"
#include "fk/ops/topk_softmax.h"

namespace {
using namespace fkr;

__device__ inline uint64_t key_of(double value, int64_t index) {
  const uint32_t bits = __float_as_uint(static_cast<float>(value == 0 ? 0.0 : value));
  const uint32_t ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return uint64_t(ordered) << 32 | (0xffffffffu - uint32_t(index));
}
__device__ inline int64_t index_of(uint64_t key) { return 0xffffffffu - uint32_t(key); }

// One row of values with weights exp((value - most) / temperature), or 1 when counting.
struct Row {
  Ref x;
  int64_t base, width;
  double most, temperature;
  bool counting;
  // Sum of the weights of all elements whose key is at least `key`; the same in every thread.
  __device__ double mass(uint64_t key) const {
    double sum = 0;
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
      const double v = load(x, base + i);
      if (key_of(v, i) >= key) sum += counting ? 1 : exp((v - most) / temperature);
    }
    return block_sum(sum);
  }
  // The largest key at which the mass reaches (or, strictly, exceeds) the target; `last` if none before it does.
  __device__ uint64_t first(double target, bool strictly, uint64_t last) const {
    uint64_t low = last, high = ~uint64_t{0};  // the answer is in [low, high]
    while (low < high) {
      const uint64_t middle = low + (high - low) / 2 + 1;
      const double m = mass(middle);
      if (strictly ? m > target : m >= target) low = middle;
      else high = middle - 1;
    }
    return low;
  }
};

// The smallest key of a row.
__device__ inline uint64_t last_key(const Ref& x, int64_t base, int64_t width) {
  __shared__ unsigned long long least;
  if (threadIdx.x == 0) least = ~0ull;
  __syncthreads();
  unsigned long long mine = ~0ull;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) mine = min(mine, static_cast<unsigned long long>(key_of(load(x, base + i), i)));
  atomicMin(&least, mine);
  __syncthreads();
  return least;
}

__global__ void sample(Ref logits, const float* temperature, const int32_t* top_k, const float* top_p, const float* uniform,
                       int64_t* tokens, int64_t width) {
  const int64_t b = blockIdx.x, base = b * width;
  double most = -INFINITY;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) most = fmax(most, load(logits, base + i));
  most = block_max(most);
  Row row{logits, base, width, most, temperature[b], true};
  uint64_t last = last_key(logits, base, width), token;
  if (temperature[b] <= 0) {
    token = row.first(1, false, last);
  } else {
    if (top_k[b] > 0 && top_k[b] < width) last = row.first(top_k[b], false, last);
    row.counting = false;
    if (top_p[b] < 1) last = row.first(double(top_p[b]) * row.mass(last), false, last);
    token = row.first(double(uniform[b]) * row.mass(last), true, last);
  }
  if (threadIdx.x == 0) tokens[b] = index_of(token);
}

// One block per token; experts are few.
__global__ void topk(Ref logits, float* weights, int32_t* ids, int64_t experts, int64_t chosen, bool renormalize) {
  const int64_t t = blockIdx.x, base = t * experts;
  double most = -INFINITY;
  for (int64_t e = threadIdx.x; e < experts; e += blockDim.x) most = fmax(most, load(logits, base + e));
  most = block_max(most);
  Row row{logits, base, experts, most, 1, false};
  const uint64_t last = last_key(logits, base, experts);
  const double all = row.mass(last);
  row.counting = true;
  double kept = 0;
  for (int64_t k = 0; k < chosen; ++k) {
    const int64_t e = index_of(row.first(double(k + 1), false, last));
    const double p = exp(load(logits, base + e) - most) / all;
    kept += p;
    if (threadIdx.x == 0) {
      ids[t * chosen + k] = int32_t(e);
      weights[t * chosen + k] = float(p);
    }
  }
  if (!renormalize || threadIdx.x != 0) return;
  for (int64_t k = 0; k < chosen; ++k) {
    const double p = exp(load(logits, base + ids[t * chosen + k]) - most) / all;
    weights[t * chosen + k] = float(p / kept);
  }
}

// A stable counting sort, one thread per expert: it counts those before it, then places its own in order.
__global__ void align(const int32_t* topk_ids, int32_t* row_ids, int32_t* offsets, int64_t assignments, int64_t experts) {
  const int64_t e = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (e > experts) return;
  int64_t start = 0;
  for (int64_t j = 0; j < assignments; ++j) start += topk_ids[j] < e ? 1 : 0;
  offsets[e] = int32_t(start);
  if (e == experts) return;
  for (int64_t j = 0; j < assignments; ++j) {
    if (topk_ids[j] == e) row_ids[start++] = int32_t(j);
  }
}

struct SampleTokens : Plain<fk::sample_tokens> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    if (!a.logits->shape[0]) return;
    sample<<<unsigned(a.logits->shape[0]), 1024, 0, stream(ctx)>>>(ref(a.logits), fk::data<float>(a.temperature), fk::data<int32_t>(a.top_k),
                                                                   fk::data<float>(a.top_p), fk::data<float>(a.uniform), fk::data<int64_t>(a.tokens), init.vocab_size);
    launched();
  }
};
struct TopkSoftmax : Plain<fk::topk_softmax> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    if (!a.logits->shape[0]) return;
    topk<<<unsigned(a.logits->shape[0]), 64, 0, stream(ctx)>>>(ref(a.logits), fk::data<float>(a.topk_weights), fk::data<int32_t>(a.topk_ids), init.num_experts,
                                                               init.top_k, init.renormalize != 0);
    launched();
  }
};
struct MoeAlign : Plain<fk::moe_align> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    align<<<blocks(init.num_experts + 1, 64), 64, 0, stream(ctx)>>>(fk::data<int32_t>(a.topk_ids), fk::data<int32_t>(a.row_ids), fk::data<int32_t>(a.expert_offsets),
                                                                    a.topk_ids->shape[0] * a.topk_ids->shape[1], init.num_experts);
    launched();
  }
};
FK_OP(sample_tokens, SampleTokens);
FK_OP(topk_softmax, TopkSoftmax);
FK_OP(moe_align, MoeAlign);

}  // namespace
