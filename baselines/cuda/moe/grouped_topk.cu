// SPDX-License-Identifier: Apache-2.0
// grouped_topk: one warp per token. Every lane has up to eight experts, and one group. Scores are
// double. The logistic functions of v and -v add up to 1, so groups of rounded logits may tie, and
// noise of float32 would decide.
#include "../parts/op.cuh"
#include "fk/ops/grouped_topk.h"

namespace {
using namespace fkc;
constexpr int kThreads = 128, kExpertsMost = 256, kOfLane = kExpertsMost / 32;

struct Router {
  int tokens, experts, top_k, groups, kept, sigmoid, renormalize;
  float factor;
};
// The better of two: larger first, then lower index. Index -1 is no candidate.
__device__ void better(double& value, int& at, double other, int other_at) {
  if (other_at >= 0 && (at < 0 || other > value || (other == value && other_at < at))) value = other, at = other_at;
}
__device__ void best_of_warp(double& value, int& at) {
  for (int k = 16; k > 0; k /= 2) {
    const double other = __shfl_xor_sync(0xffffffffu, value, k);
    better(value, at, other, __shfl_xor_sync(0xffffffffu, at, k));
  }
}

template <class T> __global__ void __launch_bounds__(kThreads) grouped_topk(const T* logits, const float* bias, float* weights, int32_t* ids, Router r) {
  __shared__ double choices[kThreads / 32][kExpertsMost];
  const int token = int(blockIdx.x) * (kThreads / 32) + int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  double* const choice = choices[threadIdx.x / 32];
  wait_for_inputs();
  if (token >= r.tokens) return;
  double scores[kOfLane], total = 0;
  float most = -INFINITY;
#pragma unroll
  for (int i = 0; i < kOfLane; ++i) {
    const int e = i * 32 + lane;
    const float logit = e < r.experts ? to_float(logits[int64_t(token) * r.experts + e]) : -INFINITY;
    scores[i] = double(logit);
    most = fmaxf(most, logit);
  }
  most = warp_max(most);
#pragma unroll
  for (int i = 0; i < kOfLane; ++i) {
    if (i * 32 + lane >= r.experts) continue;
    scores[i] = r.sigmoid ? 1 / (1 + exp(-scores[i])) : exp(scores[i] - double(most));
    total += scores[i];
  }
  total = warp_sum(total);
#pragma unroll
  for (int i = 0; i < kOfLane; ++i) {
    const int e = i * 32 + lane;
    if (e >= r.experts) continue;
    if (!r.sigmoid) scores[i] /= total;
    choice[e] = scores[i] + (bias ? double(bias[e]) : 0);
  }
  __syncwarp();
  // The value of a group: its best score or, with a bias, the sum of its two best.
  const int size = r.experts / r.groups;
  double value = -INFINITY;
  if (lane < r.groups) {
    double first = -INFINITY, second = -INFINITY;
    for (int j = 0; j < size; ++j) {
      const double v = choice[lane * size + (j + lane) % size];  // lanes in different banks
      second = fmax(second, fmin(first, v));
      first = fmax(first, v);
    }
    value = bias && size > 1 ? first + second : first;
  }
  uint32_t open = 0;  // groups with open experts
  for (int k = 0; k < r.kept; ++k) {
    double best = value;
    int at = lane < r.groups && !(open >> lane & 1) ? lane : -1;
    best_of_warp(best, at);
    open |= 1u << at;
  }
  uint32_t left = 0;  // experts of this lane
#pragma unroll
  for (int i = 0; i < kOfLane; ++i)
    if (i * 32 + lane < r.experts && (open >> ((i * 32 + lane) / size) & 1)) left |= 1u << i;
  double sum = 0, mine = 0;  // lane k keeps the k-th weight
  for (int k = 0; k < r.top_k; ++k) {
    double best = 0;
    int at = -1;
#pragma unroll
    for (int i = 0; i < kOfLane; ++i)
      if (left >> i & 1) better(best, at, choice[i * 32 + lane], i * 32 + lane);
    best_of_warp(best, at);
    double score = 0;
#pragma unroll
    for (int i = 0; i < kOfLane; ++i)
      if (at == i * 32 + lane) score = scores[i], left &= ~(1u << i);
    score = __shfl_sync(0xffffffffu, score, at % 32);
    sum += score;
    if (lane == 0) ids[int64_t(token) * r.top_k + k] = at;
    if (lane == k) mine = score;
  }
  if (lane < r.top_k) weights[int64_t(token) * r.top_k + lane] = float(mine * (double(r.factor) / (r.renormalize ? sum + 1e-20 : 1)));
}

struct GroupedTopk : Base<fk::grouped_topk> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need(init.num_experts <= kExpertsMost, "num_experts: up to 256");
    need(init.num_expert_group <= 32 && init.num_experts % init.num_expert_group == 0, "num_expert_group: up to 32, and it divides num_experts");
    need(init.topk_group <= init.num_expert_group, "topk_group: no more than there are");
    need(init.top_k <= 32 && init.top_k <= init.topk_group * (init.num_experts / init.num_expert_group), "top_k: up to 32, and no more than the groups have");
    need(max.logits->shape[0] < int64_t{1} << 31, "tokens: fewer");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t tokens = a.logits->shape[0];
    if (!tokens) return;
    const Router router{int(tokens), int(init.num_experts), int(init.top_k), int(init.num_expert_group), int(init.topk_group),
                        init.scoring_func == FK_GROUPED_TOPK_SCORING_FUNC_SIGMOID, int(init.renormalize), float(init.routed_scaling_factor)};
    const auto run = [&](auto type) {
      using T = decltype(type);
      launch(grouped_topk<T>, unsigned(cdiv(tokens, kThreads / 32)), kThreads, 0, ctx, fk::data<T>(a.logits), fk::data<float>(weights.e_score_correction_bias),
             fk::data<float>(a.topk_weights), fk::data<int32_t>(a.topk_ids), router);
    };
    if (FK_DTYPE(a.logits) == FK_F32) run(float{});
    else dispatch(a.logits, run);
  }
};
FK_OP(grouped_topk, GroupedTopk);

}  // namespace
