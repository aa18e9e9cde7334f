// SPDX-License-Identifier: Apache-2.0
// topk_softmax. Each vector lane handles one token, and a loop runs over the experts, so no sum or
// search crosses lanes. Softmax keeps the order of logits, so the kernel compares logits. Ties keep
// the lower index: a later expert replaces an earlier one only if it is larger.
#include "math.hpp"

namespace fk::cpu {
// Arguments of one call; `chosen` is k.
struct TopkSoftmax {
  const void* logits;
  const float* scale;  // of each expert; null: none
  float* weights;
  int32_t* ids;
  int64_t experts, chosen;
  int type, renormalize;
  float reach;  // twice the jitter; 0: one softmax over all experts
};
}  // namespace fk::cpu
// Tokens [begin, end). `columns` is scratch [experts, 16 lanes].
FK_CPU_KERNEL(topk_softmax, const TopkSoftmax&, int64_t begin, int64_t end, float* columns)

namespace fk::cpu::FK_CPU_LEVEL {

// Transposes the logits of `count` tokens to [expert, lane]; the other lanes are zero.
template <class T>
FK_INLINE void load_columns(const TopkSoftmax& a, int64_t token, int64_t count, float* columns) {
  const T* logits = static_cast<const T*>(a.logits) + token * a.experts;
  for (int64_t e = 0; e < a.experts; ++e) {
    for (int64_t j = 0; j < kLanes; ++j) {
      columns[e * kLanes + j] = j < count ? to_float(logits[j * a.experts + e]) : 0.f;
    }
  }
}

// The share of the logit `best` among those that are left and near it.
FK_INLINE Vf share_of_near(const TopkSoftmax& a, Vf best, const float* columns) {
  Vf sum{};
  for (int64_t e = 0; e < a.experts; ++e) {
    const Vf v = load(columns + e * kLanes), size = max(v < splat(0.f) ? -v : v, best);
    const Vf part = (best - v) / size > splat(a.reach) ? splat(0.f) : exp(v - best);
    sum += v == v ? part : splat(0.f);  // NaN: chosen before
  }
  return 1.f / sum;
}

// Writes the k experts and weights of the tokens in `columns`.
FK_INLINE void choose(const TopkSoftmax& a, int64_t token, int64_t count, float* columns) {
  Vf top = splat(-__builtin_inff()), all{}, total{};
  for (int64_t e = 0; e < a.experts; ++e) top = max(load(columns + e * kLanes), top);
  for (int64_t e = 0; e < a.experts; ++e) all += exp(load(columns + e * kLanes) - top);
  for (int64_t k = 0; k < a.chosen; ++k) {
    Vf best = splat(-__builtin_inff());
    Vi index = Vi{} - 1;
    for (int64_t e = 0; e < a.experts; ++e) {
      const Vf v = load(columns + e * kLanes);
      // Also true for the first logit that is not NaN: it may be -infinity.
      const Vi take = (v > best) | ((index < 0) & (v == v));
      best = take ? v : best;
      index = take ? Vi{} + static_cast<int32_t>(e) : index;
    }
    index = index < 0 ? Vi{} : index;  // only NaN is left
    const Vf weight = a.reach > 0 ? share_of_near(a, best, columns) : exp(best - top);
    total += weight;
    for (int64_t j = 0; j < count; ++j) {
      a.ids[(token + j) * a.chosen + k] = index[j];
      a.weights[(token + j) * a.chosen + k] = weight[j];
      columns[index[j] * kLanes + j] = __builtin_nanf("");  // never chosen again
    }
  }
  const Vf scale = 1.f / (a.renormalize ? total : a.reach > 0 ? splat(1.f) : all);
  for (int64_t j = 0; j < count; ++j) {
    for (int64_t k = 0; k < a.chosen; ++k) {
      const int64_t at = (token + j) * a.chosen + k;
      a.weights[at] *= a.scale ? scale[j] * a.scale[a.ids[at]] : scale[j];
    }
  }
}

void topk_softmax(const TopkSoftmax& a, int64_t begin, int64_t end, float* columns) {
  for (int64_t t = begin; t < end; t += kLanes) {
    const int64_t count = end - t < kLanes ? end - t : kLanes;
    with_type(a.type, [&]<class T>() { load_columns<T>(a, t, count, columns); });
    choose(a, t, count, columns);
  }
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#define FK_TOPK_SOFTMAX_EDITION 3  // with the fields that the contract marks `since: 2` and `since: 3`
#include "fk/ops/topk_softmax.h"
#include "op.hpp"

namespace fk::cpu {

struct TopkSoftmaxOp {
  using op = fk::topk_softmax;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_float(max.logits, "logits: f32, bf16 or f16");
    need.scratch = threads_max() * init.num_experts * 64;  // 64 bytes: 16 lanes of float
  }
  TopkSoftmaxOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const fk_in* scale = args.expert_scale.or_null;
    const TopkSoftmax a{args.logits->data,
                        scale ? data<float>(scale) : nullptr,
                        data<float>(args.topk_weights),
                        data<int32_t>(args.topk_ids),
                        init_.num_experts,
                        init_.top_k,
                        type_of(args.logits),
                        init_.renormalize != 0,
                        static_cast<float>(2 * init_.jitter)};
    const int64_t tokens = args.logits->shape[0];
    // The estimate counts operations, because arithmetic dominates: split() takes them as bytes.
    split(threads_, tokens, tokens * (init_.num_experts * 8 + init_.top_k * 64),
          [&](int64_t begin, int64_t end, int thread) {
            kernel_(a, begin, end,
                    // 16 lanes
                    static_cast<float*>(ctx.scratch) + thread * init_.num_experts * 16);
          });
  }

 private:
  const op::init& init_;
  const int threads_;
  decltype(&generic::topk_softmax) kernel_ = FK_CPU_PICK(topk_softmax);
};
FK_OP(topk_softmax, TopkSoftmaxOp);

}  // namespace fk::cpu
#endif
