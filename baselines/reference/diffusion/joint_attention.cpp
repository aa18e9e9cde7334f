// SPDX-License-Identifier: Apache-2.0
// joint_attention: image by image, the text's tokens first (dit.hpp).
#include "fk/ops/joint_attention.h"
#include "dit.hpp"

namespace fk::reference {
namespace {

struct JointAttention : Base<joint_attention> {
  using Base::Base;
  struct Rows {
    double *tokens, *out;
    StreamRows stream;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : tokens(s.take((args.context->shape[1] + args.x->shape[1]) * i.hidden_size)),
          out(s.take(i.hidden_size)),
          stream(s, i, args.context->shape[1] + args.x->shape[1]) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_image_attention(init);
    need_floats(w.qkv, w.qkv_bias, w.q_norm.or_null, w.k_norm.or_null, w.o, w.o_bias, w.context_qkv,
                w.context_qkv_bias, w.context_q_norm.or_null, w.context_k_norm.or_null, w.context_o,
                w.context_o_bias, max.x, max.context, max.mask.or_null, max.out, max.context_out);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, args);
    const int64_t text = args.context->shape[1], channels = init.hidden_size;
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      load(args.context, offset(args.context, b), text * channels, rows.tokens);
      load(args.x, offset(args.x, b), args.x->shape[1] * channels, rows.tokens + text * channels);
      joint_attention_of(init, weights, args, b, rows.tokens, rows.stream, rows.out,
                         [&](int64_t t, const double* out) {
                           if (t < text)
                             store(args.context_out, offset(args.context_out, b, t), channels, out);
                           else
                             store(args.out, offset(args.out, b, t - text), channels, out);
                         });
    }
  }
};
FK_OP(joint_attention, JointAttention);

}  // namespace
}  // namespace fk::reference
