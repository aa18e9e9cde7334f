// SPDX-License-Identifier: Apache-2.0
// fused_moe_mxfp4: the weighted sum of a token's chosen experts, whose weights are in mxfp4
// (mxfp4.hpp).
#include "fk/ops/fused_moe_mxfp4.h"
#include "mxfp4.hpp"

namespace fk::reference {
namespace {

struct FusedMoeMxfp4 : Base<fused_moe_mxfp4> {
  using Base::Base;
  struct Rows {
    double *x, *hidden, *part, *out, *weights;
    Rows(Scratch& s, const op::init& i)
        : x(s.take(i.hidden_size)),
          hidden(s.take(2 * i.intermediate_size)),
          part(s.take(i.hidden_size)),
          out(s.take(i.hidden_size)),
          weights(s.take(i.top_k)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.w13_bias.or_null, weights.w2_bias.or_null, max.x, max.out);
    if (init.hidden_size % 32 || init.intermediate_size % 32)
      throw unsupported{"a width is not a multiple of 32"};
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    const int64_t channels = init.hidden_size, width = init.intermediate_size;
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      load(args.x, offset(args.x, t), channels, row.x);
      load(args.topk_weights, offset(args.topk_weights, t), init.top_k, row.weights);
      experts_sum(
          channels, init.top_k, row.weights,
          data<int32_t>(args.topk_ids) + offset(args.topk_ids, t), row.x, row.hidden, row.part,
          row.out,
          [&](int64_t e, const double* from, double* to) {
            mxfp4_matrix_vector(weights.w13, weights.w13_scale, weights.w13_bias, e, 2 * width,
                                channels, from, to);
          },
          [&](double* h) { swiglu_pairs(h, width, init.alpha, init.limit); },
          [&](int64_t e, const double* from, double* to) {
            mxfp4_matrix_vector(weights.w2, weights.w2_scale, weights.w2_bias, e, channels, width,
                                from, to);
          });
      store(args.out, offset(args.out, t), channels, row.out);
    }
  }
};
FK_OP(fused_moe_mxfp4, FusedMoeMxfp4);

}  // namespace
}  // namespace fk::reference
