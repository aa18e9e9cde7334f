// SPDX-License-Identifier: Apache-2.0
// moe_block: sparse_mlp() of sparse_mlp.hpp for each token.
#define FK_MOE_BLOCK_EDITION 2  // with the fields that the contract marks `since: 2`
#include "fk/ops/moe_block.h"
#include "sparse_mlp.hpp"

namespace fk::reference {
namespace {

struct MoeBlock : Base<moe_block> {
  using Base::Base;
  struct Rows {
    double *x, *out;
    SparseMlpRows mlp;
    Rows(Scratch& s, const op::init& i)
        : x(s.take(i.hidden_size)), out(s.take(i.hidden_size)), mlp(s, i) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.gate, weights.gate_bias.or_null, weights.w13, weights.w2,
                weights.w13_bias.or_null, weights.w2_bias.or_null, max.x, max.out);
    if (init.top_k > init.num_experts) throw unsupported{"top_k is more than num_experts"};
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      load(args.x, offset(args.x, t), init.hidden_size, row.x);
      sparse_mlp(init, weights, row.x, row.mlp, row.out);
      store(args.out, offset(args.out, t), init.hidden_size, row.out);
    }
  }
};
FK_OP(moe_block, MoeBlock);

}  // namespace
}  // namespace fk::reference
