// SPDX-License-Identifier: Apache-2.0
// grouped_topk. As in topk_softmax, each vector lane handles one token, so no sum or search crosses
// lanes. The best groups are kept, then the best experts of those are chosen. Ties keep the lower
// index: a later value replaces an earlier one only if it is larger.
#include "math.hpp"

namespace fk::cpu {
// Arguments of one call; `chosen` is k, `kept` the number of groups that are kept.
struct GroupedTopk {
  const void* logits;
  const float* bias;  // or null
  float* weights;
  int32_t* ids;
  int64_t experts, chosen, groups, kept;
  float factor;
  int type, sigmoid, renormalize;
};
}  // namespace fk::cpu
// Tokens [begin, end). `columns` is scratch for scores and choices [experts, 16 lanes] and for
// groups [groups, 16 lanes].
FK_CPU_KERNEL(grouped_topk, const GroupedTopk&, int64_t begin, int64_t end, float* columns)

namespace fk::cpu::FK_CPU_LEVEL {

namespace {

// Scores of `count` tokens as [expert, lane]; the other lanes have the scores of zeros.
template <class T>
FK_INLINE void load_scores(const GroupedTopk& a, int64_t token, int64_t count, float* scores) {
  const T* logits = static_cast<const T*>(a.logits) + token * a.experts;
  for (int64_t e = 0; e < a.experts; ++e) {
    for (int64_t j = 0; j < kLanes; ++j)
      scores[e * kLanes + j] = j < count ? to_float(logits[j * a.experts + e]) : 0.f;
  }
  if (a.sigmoid) {
    for (int64_t e = 0; e < a.experts; ++e)
      store(scores + e * kLanes, 1.f / (1.f + exp(-load(scores + e * kLanes))));
    return;
  }
  Vf top = splat(-__builtin_inff()), all{};
  for (int64_t e = 0; e < a.experts; ++e) top = max(load(scores + e * kLanes), top);
  for (int64_t e = 0; e < a.experts; ++e) all += exp(load(scores + e * kLanes) - top);
  for (int64_t e = 0; e < a.experts; ++e)
    store(scores + e * kLanes, exp(load(scores + e * kLanes) - top) / all);
}

// The index of each lane's best of `count` values. Replaces that value by -infinity.
FK_INLINE Vi take_best(float* values, int64_t count) {
  Vf best = splat(-__builtin_inff());
  Vi index{};
  for (int64_t i = 0; i < count; ++i) {
    const Vf v = load(values + i * kLanes);
    const Vi take = v > best;
    best = take ? v : best;
    index = take ? Vi{} + static_cast<int32_t>(i) : index;
  }
  for (int64_t j = 0; j < kLanes; ++j) values[index[j] * kLanes + j] = -__builtin_inff();
  return index;
}

// Sets the choice of all experts outside the best groups to -infinity.
FK_INLINE void keep_groups(const GroupedTopk& a, float* choice, float* groups) {
  const Vf low = splat(-__builtin_inff());
  const int64_t size = a.experts / a.groups;
  for (int64_t g = 0; g < a.groups; ++g) {
    Vf first = low, second = low;
    for (int64_t e = g * size; e < (g + 1) * size; ++e) {
      const Vf v = load(choice + e * kLanes);
      second = max(second, min(first, v));
      first = max(first, v);
    }
    // With a bias a group's score is the sum of its best two, else its best.
    store(groups + g * kLanes, a.bias && size > 1 ? first + second : first);
  }
  for (int64_t i = 0; i < a.kept; ++i) take_best(groups, a.groups);
  for (int64_t g = 0; g < a.groups; ++g) {
    const Vi taken = load(groups + g * kLanes) == low;
    for (int64_t e = g * size; e < (g + 1) * size; ++e)
      store(choice + e * kLanes, taken ? load(choice + e * kLanes) : low);
  }
}

// Writes the k experts and weights of the tokens.
FK_INLINE void choose(const GroupedTopk& a, int64_t token, int64_t count, const float* scores,
                      float* choice) {
  Vf total{};
  for (int64_t k = 0; k < a.chosen; ++k) {
    const Vi index = take_best(choice, a.experts);
    Vf weight{};
    for (int64_t j = 0; j < kLanes; ++j) weight[j] = scores[index[j] * kLanes + j];
    total += weight;
    for (int64_t j = 0; j < count; ++j) {
      a.ids[(token + j) * a.chosen + k] = index[j];
      a.weights[(token + j) * a.chosen + k] = weight[j];
    }
  }
  // no division by 0
  const Vf scale = a.renormalize ? a.factor / (total + 1e-20f) : splat(a.factor);
  for (int64_t j = 0; j < count; ++j) {
    for (int64_t k = 0; k < a.chosen; ++k) a.weights[(token + j) * a.chosen + k] *= scale[j];
  }
}

}  // namespace

void grouped_topk(const GroupedTopk& a, int64_t begin, int64_t end, float* columns) {
  float *scores = columns, *choice = scores + a.experts * kLanes,
        *groups = choice + a.experts * kLanes;
  for (int64_t t = begin; t < end; t += kLanes) {
    const int64_t count = end - t < kLanes ? end - t : kLanes;
    with_type(a.type, [&]<class T>() { load_scores<T>(a, t, count, scores); });
    for (int64_t e = 0; e < a.experts; ++e)
      store(choice + e * kLanes, load(scores + e * kLanes) + (a.bias ? a.bias[e] : 0.f));
    if (a.kept < a.groups) keep_groups(a, choice, groups);
    choose(a, t, count, scores, choice);
  }
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/grouped_topk.h"
#include "op.hpp"

namespace fk::cpu {

struct GroupedTopkOp {
  using op = fk::grouped_topk;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_float(max.logits, "logits: f32, bf16 or f16");
    if (init.num_experts % init.num_expert_group != 0)
      throw unsupported{"num_experts is not a multiple of num_expert_group"};
    if (init.topk_group > init.num_expert_group ||
        init.top_k > init.topk_group * (init.num_experts / init.num_expert_group))
      throw unsupported{"top_k is more than the groups hold"};
    need.scratch = threads_max() * floats(init) * 4;
  }
  GroupedTopkOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const GroupedTopk a{args.logits->data,
                        data<float>(weights_.e_score_correction_bias),
                        data<float>(args.topk_weights),
                        data<int32_t>(args.topk_ids),
                        init_.num_experts,
                        init_.top_k,
                        init_.num_expert_group,
                        init_.topk_group,
                        static_cast<float>(init_.routed_scaling_factor),
                        type_of(args.logits),
                        init_.scoring_func == FK_GROUPED_TOPK_SCORING_FUNC_SIGMOID,
                        init_.renormalize != 0};
    const int64_t tokens = args.logits->shape[0];
    // The estimate counts operations, because arithmetic dominates: split() takes them as bytes.
    split(threads_, tokens, tokens * (init_.num_experts * (16 + init_.top_k)),
          [&](int64_t begin, int64_t end, int thread) {
            kernel_(a, begin, end, static_cast<float*>(ctx.scratch) + thread * floats(init_));
          });
  }

 private:
  static int64_t floats(const op::init& init) {
    return 16 * (2 * init.num_experts + init.num_expert_group);  // 16 lanes
  }

  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
  decltype(&generic::grouped_topk) kernel_ = FK_CPU_PICK(grouped_topk);
};
FK_OP(grouped_topk, GroupedTopkOp);

}  // namespace fk::cpu
#endif
