// SPDX-License-Identifier: Apache-2.0
// topk_softmax: the choice is made on the logits, which order as the probabilities do; only the sum
// of the softmax needs every exp. Ties go to the lower index.
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
// `row` has room for the experts and one more vector of 16.
FK_CPU_KERNEL(topk_softmax, const TopkSoftmax&, int64_t begin, int64_t end, float* row)

namespace fk::cpu::FK_CPU_LEVEL {

void topk_softmax(const TopkSoftmax& a, int64_t begin, int64_t end, float* row) {
  const int64_t vectors = (a.experts + kLanes - 1) / kLanes;
  const float low = -__builtin_inff();
  for (int64_t t = begin; t < end; ++t) {
    store(row + (vectors - 1) * kLanes, splat(low));
    with_type(a.type, [&]<class T>() {
      const T* logits = static_cast<const T*>(a.logits) + t * a.experts;
      each_vector(a.experts, [&](int64_t i, auto n) { store(row + i, load(logits + i, n), n); });
    });
    float* weights = a.weights + t * a.chosen;
    int32_t* ids = a.ids + t * a.chosen;
    Vf most = splat(low);
    for (int64_t v = 0; v < vectors; ++v) most = max(load(row + v * kLanes), most);
    const float top = max(most);
    Vf all{};
    for (int64_t v = 0; v < vectors; ++v) all += exp(load(row + v * kLanes) - top);
    float best = top, total = 0;
    for (int64_t k = 0; k < a.chosen; ++k) {
      int64_t i = 0;
      while (i + 1 < a.experts && row[i] != best) ++i;  // the last one if all are NaN
      ids[k] = static_cast<int32_t>(i);
      weights[k] = exp(splat(best - top))[0];
      total += weights[k];
      row[i] = __builtin_nanf("");  // taken: never the largest and equal to nothing
      most = splat(low);
      for (int64_t v = 0; v < vectors; ++v) most = max(load(row + v * kLanes), most);
      best = max(most);
    }
    const float scale = 1.f / (a.renormalize ? total : sum(all));
    for (int64_t k = 0; k < a.chosen; ++k) weights[k] *= scale;
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
    need.scratch = threads_max() * (padded(init.num_experts) + 16) * 4;
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
    // Work counts more than bytes here: about 16 bytes' worth of time per logit and choice.
    split(threads_, tokens, tokens * (init_.num_experts * 8 + init_.top_k * 64),
          [&](int64_t begin, int64_t end, int thread) {
            kernel_(a, begin, end,
                    static_cast<float*>(ctx.scratch) + thread * (padded(init_.num_experts) + 16));
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
