// SPDX-License-Identifier: Apache-2.0
// topk_softmax: each lane of a vector has one token, and loops run over the experts. So no sum and
// no search goes across lanes. The choice compares logits, because softmax keeps their order. A
// later expert must be larger to replace an earlier one, so ties go to the lower index.
#include "math.hpp"

namespace fk::cpu {
struct TopkSoftmax {
  const void* logits;
  float* weights;
  int32_t* ids;
  int64_t experts, chosen;
  int type, renormalize;
};
}  // namespace fk::cpu
// `columns` holds the logits of 16 tokens.
FK_CPU_KERNEL(topk_softmax, const TopkSoftmax&, int64_t begin, int64_t end, float* columns)

namespace fk::cpu::FK_CPU_LEVEL {

// Columns [expert, token] of `count` tokens; the other lanes are zero.
template <class T>
FK_INLINE void load_columns(const TopkSoftmax& a, int64_t token, int64_t count, float* columns) {
  const T* logits = static_cast<const T*>(a.logits) + token * a.experts;
  for (int64_t e = 0; e < a.experts; ++e) {
    for (int64_t j = 0; j < kLanes; ++j) {
      columns[e * kLanes + j] = j < count ? to_float(logits[j * a.experts + e]) : 0.f;
    }
  }
}

FK_INLINE void choose(const TopkSoftmax& a, int64_t token, int64_t count, float* columns) {
  Vf top = splat(-__builtin_inff()), all{}, total{};
  for (int64_t e = 0; e < a.experts; ++e) top = max(load(columns + e * kLanes), top);
  for (int64_t e = 0; e < a.experts; ++e) all += exp(load(columns + e * kLanes) - top);
  for (int64_t k = 0; k < a.chosen; ++k) {
    Vf best = splat(-__builtin_inff());
    Vi index = Vi{} - 1;
    for (int64_t e = 0; e < a.experts; ++e) {
      const Vf v = load(columns + e * kLanes);
      const Vi take = (v > best) | ((index < 0) & (v == v));
      best = take ? v : best;
      index = take ? Vi{} + static_cast<int32_t>(e) : index;
    }
    index = index < 0 ? Vi{} : index;  // all that is left is NaN
    const Vf weight = exp(best - top);
    total += weight;
    for (int64_t j = 0; j < count; ++j) {
      a.ids[(token + j) * a.chosen + k] = index[j];
      a.weights[(token + j) * a.chosen + k] = weight[j];
      columns[index[j] * kLanes + j] = __builtin_nanf("");  // taken: never the largest
    }
  }
  const Vf scale = 1.f / (a.renormalize ? total : all);
  for (int64_t j = 0; j < count; ++j) {
    for (int64_t k = 0; k < a.chosen; ++k) a.weights[(token + j) * a.chosen + k] *= scale[j];
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
#include "fk/ops/topk_softmax.h"
#include "op.hpp"

namespace fk::cpu {

struct TopkSoftmaxOp {
  using op = fk::topk_softmax;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_float(max.logits, "logits: f32, bf16 or f16");
    // 64 bytes: a float for each of 16 lanes, the most that a vector has.
    need.scratch = threads_max() * init.num_experts * 64;
  }
  TopkSoftmaxOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const TopkSoftmax a{args.logits->data,
                        data<float>(args.topk_weights),
                        data<int32_t>(args.topk_ids),
                        init_.num_experts,
                        init_.top_k,
                        type_of(args.logits),
                        init_.renormalize != 0};
    const int64_t tokens = args.logits->shape[0];
    // split() takes bytes of memory, but here arithmetic takes the time. So this is a number of
    // bytes that take about as long.
    split(threads_, tokens, tokens * (init_.num_experts * 8 + init_.top_k * 64),
          [&](int64_t begin, int64_t end, int thread) {
            kernel_(a, begin, end,
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
