// SPDX-License-Identifier: Apache-2.0
// gelu_mlp: fc2 @ gelu(fc1 @ x) with biases, for each token.
#include "fk/ops/gelu_mlp.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct GeluMlp : Base<gelu_mlp> {
  using Base::Base;
  struct Rows {
    double *x, *hidden, *out;
    Rows(Scratch& s, const op::init& i)
        : x(s.take(i.hidden_size)),
          hidden(s.take(i.intermediate_size)),
          out(s.take(i.hidden_size)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.fc1, weights.fc1_bias.or_null, weights.fc2, weights.fc2_bias.or_null, max.x,
                max.out);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    const int64_t channels = init.hidden_size, width = init.intermediate_size;
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      load(args.x, offset(args.x, t), channels, row.x);
      matrix_vector(weights.fc1, 0, width, channels, weights.fc1_bias.or_null, row.x, row.hidden);
      for (int64_t f = 0; f < width; ++f)
        row.hidden[f] = gelu(row.hidden[f], init.approximate == FK_GELU_MLP_APPROXIMATE_TANH);
      matrix_vector(weights.fc2, 0, channels, width, weights.fc2_bias.or_null, row.hidden, row.out);
      store(args.out, offset(args.out, t), channels, row.out);
    }
  }
};
FK_OP(gelu_mlp, GeluMlp);

}  // namespace
}  // namespace fk::reference
