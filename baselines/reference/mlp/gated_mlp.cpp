// SPDX-License-Identifier: Apache-2.0
// gated_mlp: gated_mlp() of fp8_block.hpp for each token.
#define FK_GATED_MLP_EDITION 2  // with the fields that the contract marks `since: 2`
#include "fk/ops/gated_mlp.h"
#include "fp8_block.hpp"

namespace fk::reference {
namespace {

struct GatedMlp : Base<fk::gated_mlp> {
  using Base::Base;
  struct Rows {
    double *x, *out;
    GatedRows mlp;
    Rows(Scratch& s, const op::init& i)
        : x(s.take(i.hidden_size)),
          out(s.take(i.hidden_size)),
          mlp(s, i.hidden_size, i.intermediate_size) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_weights(weights.gate_up, weights.down);
    need_floats(max.x, max.out);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      load(args.x, offset(args.x, t), init.hidden_size, row.x);
      reference::gated_mlp(matrix_of(weights.gate_up, weights.gate_up_scale_inv),
                           matrix_of(weights.down, weights.down_scale_inv), block_of(init),
                           init.hidden_size, init.intermediate_size, row.x, row.mlp, row.out);
      store(args.out, offset(args.out, t), init.hidden_size, row.out);
    }
  }
};
FK_OP(gated_mlp, GatedMlp);

}  // namespace
}  // namespace fk::reference
