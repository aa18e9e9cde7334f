// SPDX-License-Identifier: Apache-2.0
// triangle_attention: that of fold.hpp.
#include "fk/ops/triangle_attention.h"

#include "fold.hpp"

namespace fk::reference {
namespace {

struct TriangleAttentionOp : Base<triangle_attention> {
  using Base::Base;
  struct Rows {
    double *z, *out;
    TriangleAttention::Rows rows;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : z(s.take(args.z->shape[0] * args.z->shape[0] * i.hidden_size)),
          out(s.take(args.z->shape[0] * args.z->shape[0] * i.hidden_size)),
          rows(s, args.z->shape[0], i.hidden_size, i.num_heads, i.head_dim) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_floats(w.norm, w.qkvg, max.z, max.out);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows r(scratch, init, args);
    const int64_t tokens = args.z->shape[0], all = tokens * tokens * init.hidden_size;
    load(args.z, 0, all, r.z);
    const TriangleAttention part{tokens,        init.hidden_size,  init.num_heads,
                                 init.head_dim, init.ending != 0,  init.eps,
                                 weights.norm,  weights.norm_bias, weights.bias_proj,
                                 weights.qkvg,  weights.o};
    part(r.z, r.rows, r.out);
    store(args.out, 0, all, r.out);
  }
};
FK_OP(triangle_attention, TriangleAttentionOp);

}  // namespace
}  // namespace fk::reference
