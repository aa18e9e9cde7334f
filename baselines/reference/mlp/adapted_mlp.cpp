// SPDX-License-Identifier: Apache-2.0
// adapted_mlp: gated_mlp() of math.hpp for each token.
#include "fk/ops/adapted_mlp.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct AdaptedMlp : Base<fk::adapted_mlp> {
  using Base::Base;
  struct Rows {
    double *x, *hidden, *out;
    Rows(Scratch& s, const op::init& i)
        : x(s.take(i.hidden_size)),
          hidden(s.take(2 * i.intermediate_size)),
          out(s.take(i.hidden_size)) {}
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.gate_up, max.down, max.out);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      load(args.x, offset(args.x, t), init.hidden_size, row.x);
      reference::gated_mlp(args.gate_up, 0, args.down, 0, init.hidden_size, init.intermediate_size,
                           row.x, row.hidden, row.out);
      store(args.out, offset(args.out, t), init.hidden_size, row.out);
    }
  }
};
FK_OP(adapted_mlp, AdaptedMlp);

}  // namespace
}  // namespace fk::reference
