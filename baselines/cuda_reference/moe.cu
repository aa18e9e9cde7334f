// SPDX-License-Identifier: Apache-2.0
// topk_softmax, grouped_topk, moe_align, moe_sum.
#include "fk/ops/grouped_topk.h"
#include "fk/ops/moe_align.h"
#include "fk/ops/moe_sum.h"
#define FK_TOPK_SOFTMAX_EDITION 3
#include "fk/ops/topk_softmax.h"
#include "selection.cuh"

namespace {
using namespace fkr;

// With a jitter each choice has a softmax of its own, over the experts that are left and near it. One thread.
__device__ void mix(const Ref& logits, int64_t base, int64_t experts, double reach, bool renormalize, const int32_t* ids, float* weights, int64_t chosen) {
  const auto weight_of = [&](int64_t k) {
    const double top = load(logits, base + ids[k]);
    double near = 0;
    for (int64_t e = 0; e < experts; ++e) {
      bool left = true;
      for (int64_t i = 0; i < k; ++i) left = left && ids[i] != e;
      const double x = load(logits, base + e);
      if (left && !((top - x) / fmax(fabs(x), top) > reach)) near += exp(x - top);
    }
    return 1 / near;
  };
  double total = 0;
  for (int64_t k = 0; k < chosen; ++k) total += weight_of(k);
  for (int64_t k = 0; k < chosen; ++k) weights[k] = float(weight_of(k) / (renormalize ? total : 1));
}

// One block per token; experts are few.
struct TopkSoftmax : Plain<fk::topk_softmax> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref logits = ref(a.logits), scale = ref(a.expert_scale);
    auto* weights = fk::data<float>(a.topk_weights);
    auto* ids = fk::data<int32_t>(a.topk_ids);
    const int64_t experts = init.num_experts, chosen = init.top_k;
    const bool renormalize = init.renormalize != 0;
    const double reach = 2 * init.jitter;
    for_rows(a.logits->shape[0], 64, 0, ctx, [=] __device__(int64_t t) {
      const int64_t base = t * experts;
      const Softmax all = softmax_of(logits, base, experts);
      const auto share = [&](int64_t e) { return exp(load(logits, base + e) - all.most) / all.sum; };
      uint64_t key = ~uint64_t{0};
      double kept = 0;
      for (int64_t k = 0; k < chosen; ++k) {
        key = next_key(logits, base, experts, key);
        kept += share(index_of(key));
        if (threadIdx.x == 0) ids[t * chosen + k] = int32_t(index_of(key));
      }
      if (threadIdx.x != 0) return;
      if (reach > 0) mix(logits, base, experts, reach, renormalize, ids + t * chosen, weights + t * chosen, chosen);
      for (int64_t k = t * chosen; k < (t + 1) * chosen; ++k) {
        if (!(reach > 0)) weights[k] = float(share(ids[k]) / (renormalize ? kept : 1));
        if (scale.data) weights[k] *= float(load(scale, ids[k]));
      }
    });
  }
};

// Takes the best remaining element; ties go to the lowest index. One thread.
__device__ int64_t take_best(double* values, int64_t count) {
  int64_t best = 0;
  for (int64_t i = 1; i < count; ++i) {
    if (values[i] > values[best]) best = i;
  }
  values[best] = -INFINITY;
  return best;
}

// One block per token: scores by all threads, groups by one thread each, the choice by the first thread.
struct GroupedTopk : Plain<fk::grouped_topk> {
  using Plain::Plain;
  static int64_t shared(const op::init& init) { return (2 * init.num_experts + init.num_expert_group) * 8; }
  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) {
    if (init.num_experts % init.num_expert_group) throw fk::unsupported{"num_experts is not a multiple of num_expert_group"};
    if (init.topk_group > init.num_expert_group) throw fk::unsupported{"topk_group is more than num_expert_group"};
    if (init.top_k > init.topk_group * (init.num_experts / init.num_expert_group)) throw fk::unsupported{"top_k is more than the groups hold"};
    if (shared(init) > kSharedLimit) throw fk::unsupported{"scores of more experts than shared memory holds"};
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref logits = ref(a.logits), bias = ref(weights.e_score_correction_bias);
    auto* out = fk::data<float>(a.topk_weights);
    auto* ids = fk::data<int32_t>(a.topk_ids);
    const int64_t experts = init.num_experts, chosen = init.top_k, groups = init.num_expert_group, kept = init.topk_group;
    const int64_t size = experts / groups;
    const bool sigmoid = init.scoring_func == FK_GROUPED_TOPK_SCORING_FUNC_SIGMOID, renormalize = init.renormalize != 0;
    const double factor = init.routed_scaling_factor;
    for_rows(a.logits->shape[0], 64, size_t(shared(init)), ctx, [=] __device__(int64_t t) {
      const int64_t base = t * experts;
      double *scores = dynamic_shared(), *choice = scores + experts, *best = choice + experts;
      const Softmax all = softmax_of(logits, base, experts);
      for (int64_t e = threadIdx.x; e < experts; e += blockDim.x) {
        const double v = load(logits, base + e);
        scores[e] = sigmoid ? 1 / (1 + exp(-v)) : exp(v - all.most) / all.sum;
        choice[e] = scores[e] + load_or(bias, e, 0);
      }
      __syncthreads();
      for (int64_t g = threadIdx.x; g < groups; g += blockDim.x) {
        double first = -INFINITY, second = -INFINITY;
        for (int64_t e = g * size; e < (g + 1) * size; ++e) {
          second = fmax(second, fmin(first, choice[e]));
          first = fmax(first, choice[e]);
        }
        best[g] = bias.data && size > 1 ? first + second : first;
      }
      __syncthreads();
      if (threadIdx.x != 0) return;
      for (int64_t i = 0; i < kept; ++i) take_best(best, groups);
      for (int64_t e = 0; e < experts; ++e) {
        if (best[e / size] != -INFINITY) choice[e] = -INFINITY;  // its group was not taken
      }
      double sum = 0;
      for (int64_t k = 0; k < chosen; ++k) {
        ids[t * chosen + k] = int32_t(take_best(choice, experts));
        sum += scores[ids[t * chosen + k]];
      }
      for (int64_t k = 0; k < chosen; ++k)
        out[t * chosen + k] = float(scores[ids[t * chosen + k]] * (factor / (renormalize ? sum + 1e-20 : 1)));
    });
  }
};

// A stable counting sort with one thread per expert: it counts the choices of lower experts, then
// places its own in order.
struct MoeAlign : Plain<fk::moe_align> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const auto* ids = fk::data<int32_t>(a.topk_ids);
    auto *rows = fk::data<int32_t>(a.row_ids), *offsets = fk::data<int32_t>(a.expert_offsets);
    const int64_t assignments = a.topk_ids->shape[0] * a.topk_ids->shape[1], experts = init.num_experts;
    for_each(experts + 1, ctx, [=] __device__(int64_t e) {
      int64_t start = 0;
      for (int64_t j = 0; j < assignments; ++j) start += ids[j] < e ? 1 : 0;
      offsets[e] = int32_t(start);
      for (int64_t j = 0; j < assignments; ++j) {
        if (ids[j] == e) rows[start++] = int32_t(j);
      }
    });
  }
};
struct MoeSum : Plain<fk::moe_sum> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), out = ref(a.out);
    const auto* weight = fk::data<float>(a.topk_weights);
    const int64_t width = init.size, chosen = a.topk_weights->shape[1];
    for_each(a.out->shape[0] * width, ctx, [=] __device__(int64_t i) {
      const int64_t t = i / width, c = i % width;
      double sum = 0;
      for (int64_t k = 0; k < chosen; ++k) sum += double(weight[t * chosen + k]) * load(x, (t * chosen + k) * width + c);
      store(out, i, sum);
    });
  }
};
FK_OP(topk_softmax, TopkSoftmax);
FK_OP(grouped_topk, GroupedTopk);
FK_OP(moe_align, MoeAlign);
FK_OP(moe_sum, MoeSum);

}  // namespace
