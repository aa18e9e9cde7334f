// SPDX-License-Identifier: Apache-2.0
// context_attention: image by image (context.hpp).
#include "fk/ops/context_attention.h"
#include "context.hpp"
#include "op.hpp"

namespace fk::reference {
namespace {

struct ContextAttentionOp : Base<context_attention> {
  using Base::Base;
  static ContextAttention attention(const op::init& i, const op::weights& w) {
    return {i.hidden_size,    i.context_size, i.num_heads,       i.head_dim, i.scale,         w.q,
            w.q_bias.or_null, w.kv,           w.kv_bias.or_null, w.o,        w.o_bias.or_null};
  }
  struct Rows {
    double *x, *context, *attention, *out;
    Rows(Scratch& s, const op::init& i, const op::forward& args, const ContextAttention& a)
        : x(s.take(args.x->shape[1] * i.hidden_size)),
          context(s.take(args.context->shape[1] * i.context_size)),
          attention(s.take(a.scratch(args.context->shape[1]))),
          out(s.take(i.hidden_size)) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_floats(w.q, w.q_bias.or_null, w.kv, w.kv_bias.or_null, w.o, w.o_bias.or_null, max.x,
                max.context, max.out);
    need.scratch = scratch_bytes<Rows>(init, max, attention(init, w));
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const ContextAttention attend = attention(init, weights);
    const Rows rows(scratch, init, args, attend);
    const int64_t tokens = args.x->shape[1], keys = args.context->shape[1];
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      load(args.x, offset(args.x, b), tokens * init.hidden_size, rows.x);
      load(args.context, offset(args.context, b), keys * init.context_size, rows.context);
      attend(rows.x, tokens, rows.context, keys, rows.attention, rows.out,
             [&](int64_t t, const double* out) {
               store(args.out, offset(args.out, b, t), init.hidden_size, out);
             });
    }
  }
};
FK_OP(context_attention, ContextAttentionOp);

}  // namespace
}  // namespace fk::reference
