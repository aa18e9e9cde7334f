// SPDX-License-Identifier: Apache-2.0
// topk_softmax: softmax over all experts, then the most probable ones (choose_experts() in
// math.hpp).
#include "fk/ops/topk_softmax.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct TopkSoftmax : Base<topk_softmax> {
  using Base::Base;
  struct Rows {
    double *logits, *weights;
    Rows(Scratch& s, const op::init& i) : logits(s.take(i.num_experts)), weights(s.take(i.top_k)) {}
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.logits, max.topk_weights);
    if (init.top_k > init.num_experts) throw unsupported{"top_k is more than num_experts"};
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    for (int64_t t = 0; t < args.logits->shape[0]; ++t) {
      load(args.logits, offset(args.logits, t), init.num_experts, row.logits);
      choose_experts(row.logits, init.num_experts, init.top_k, init.renormalize, row.logits,
                     row.weights, data<int32_t>(args.topk_ids) + offset(args.topk_ids, t));
      store(args.topk_weights, offset(args.topk_weights, t), init.top_k, row.weights);
    }
  }
};
FK_OP(topk_softmax, TopkSoftmax);

}  // namespace
}  // namespace fk::reference
