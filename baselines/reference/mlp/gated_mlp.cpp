// SPDX-License-Identifier: Apache-2.0
// gated_mlp: token by token.
#include "fk/ops/gated_mlp.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct GatedMlp : Base<fk::gated_mlp> {
  using Base::Base;
  struct Rows {
    double *x, *hidden, *out;
    Rows(Scratch& s, const op::init& i)
        : x(s.take(i.hidden_size)),
          hidden(s.take(2 * i.intermediate_size)),
          out(s.take(i.hidden_size)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.gate_up, weights.down, max.x, max.out);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      load(args.x, offset(args.x, t), init.hidden_size, row.x);
      reference::gated_mlp(weights.gate_up, 0, weights.down, 0, init.hidden_size,
                           init.intermediate_size, row.x, row.hidden, row.out);
      store(args.out, offset(args.out, t), init.hidden_size, row.out);
    }
  }
};
FK_OP(gated_mlp, GatedMlp);

}  // namespace
}  // namespace fk::reference
