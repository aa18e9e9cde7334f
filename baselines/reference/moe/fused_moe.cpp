// SPDX-License-Identifier: Apache-2.0
// fused_moe: the weighted sum of a token's chosen experts (experts_sum() in fp8_block.hpp).
#define FK_FUSED_MOE_EDITION 2  // with the fields that the contract marks `since: 2`
#include "fk/ops/fused_moe.h"
#include "fp8_block.hpp"

namespace fk::reference {
namespace {

struct FusedMoe : Base<fused_moe> {
  using Base::Base;
  struct Rows {
    double *x, *out, *weights;
    GatedRows mlp;
    Rows(Scratch& s, const op::init& i)
        : x(s.take(i.hidden_size)),
          out(s.take(i.hidden_size)),
          weights(s.take(i.top_k)),
          mlp(s, i.hidden_size, i.intermediate_size) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_weights(weights.w13, weights.w2);
    need_floats(weights.w13_bias.or_null, weights.w2_bias.or_null, max.x, max.topk_weights,
                max.out);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      load(args.x, offset(args.x, t), init.hidden_size, row.x);
      load(args.topk_weights, offset(args.topk_weights, t), init.top_k, row.weights);
      experts_sum(init, weights, row.weights,
                  data<int32_t>(args.topk_ids) + offset(args.topk_ids, t), row.x, row.mlp, row.out);
      store(args.out, offset(args.out, t), init.hidden_size, row.out);
    }
  }
};
FK_OP(fused_moe, FusedMoe);

}  // namespace
}  // namespace fk::reference
