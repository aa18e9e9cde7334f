// SPDX-License-Identifier: Apache-2.0
// geglu_mlp: for each token (context.hpp).
#include "fk/ops/geglu_mlp.h"
#include "context.hpp"
#include "op.hpp"

namespace fk::reference {
namespace {

struct GegluMlp : Base<geglu_mlp> {
  using Base::Base;
  struct Rows {
    double *x, *hidden, *out;
    Rows(Scratch& s, const op::init& i)
        : x(s.take(i.hidden_size)),
          hidden(s.take(2 * i.intermediate_size)),
          out(s.take(i.hidden_size)) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_floats(w.fc1, w.fc1_bias.or_null, w.fc2, w.fc2_bias.or_null, max.x, max.out);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    const GegluWeights mlp{init.hidden_size,
                           init.intermediate_size,
                           init.kind == FK_GEGLU_MLP_KIND_GELU_TANH,
                           weights.fc1,
                           weights.fc1_bias.or_null,
                           weights.fc2,
                           weights.fc2_bias.or_null};
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      load(args.x, offset(args.x, t), init.hidden_size, row.x);
      mlp(row.x, row.hidden, row.out);
      store(args.out, offset(args.out, t), init.hidden_size, row.out);
    }
  }
};
FK_OP(geglu_mlp, GegluMlp);

}  // namespace
}  // namespace fk::reference
