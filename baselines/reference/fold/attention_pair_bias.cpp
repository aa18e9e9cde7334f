// SPDX-License-Identifier: Apache-2.0
// attention_pair_bias: that of fold.hpp.
#include "fk/ops/attention_pair_bias.h"

#include "fold.hpp"

namespace fk::reference {
namespace {

struct AttentionPairBiasOp : Base<attention_pair_bias> {
  using Base::Base;
  struct Rows {
    double *x, *z, *out;
    AttentionPairBias::Rows rows;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : x(s.take(args.x->shape[0] * i.hidden_size)),
          z(s.take(args.x->shape[0] * args.x->shape[0] * i.pair_size)),
          out(s.take(args.x->shape[0] * i.hidden_size)),
          rows(s, args.x->shape[0], i.hidden_size, i.pair_size, i.num_heads, i.head_dim) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_floats(w.norm, w.q, max.x, max.z, max.out);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows r(scratch, init, args);
    const int64_t tokens = args.x->shape[0];
    load(args.x, 0, tokens * init.hidden_size, r.x);
    load(args.z, 0, tokens * tokens * init.pair_size, r.z);
    const AttentionPairBias part{tokens,
                                 init.hidden_size,
                                 init.pair_size,
                                 init.num_heads,
                                 init.head_dim,
                                 init.eps,
                                 weights.norm,
                                 weights.norm_bias,
                                 weights.norm_z,
                                 weights.norm_z_bias,
                                 weights.bias_proj,
                                 weights.q,
                                 weights.q_bias,
                                 weights.kvg,
                                 weights.o};
    part(r.x, r.z, r.rows, r.out);
    store(args.out, 0, tokens * init.hidden_size, r.out);
  }
};
FK_OP(attention_pair_bias, AttentionPairBiasOp);

}  // namespace
}  // namespace fk::reference
