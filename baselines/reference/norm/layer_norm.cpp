// SPDX-License-Identifier: Apache-2.0
// layer_norm: layer_normalize() of math.hpp for each row (plus the residual).
#include "fk/ops/layer_norm.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct LayerNorm : Base<layer_norm> {
  using Base::Base;
  struct Rows {
    double *x, *weight;
    Rows(Scratch& s, const op::init& i) : x(s.take(i.hidden_size)), weight(s.take(i.hidden_size)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.weight.or_null, weights.bias.or_null, max.x, max.residual.or_null, max.out);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    const int64_t channels = init.hidden_size;
    const fk_in* residual = args.residual.or_null;
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      load(args.x, offset(args.x, t), channels, row.x);
      if (residual) add_scaled(residual, offset(residual, t), channels, 1, row.x);
      layer_normalize(row.x, channels, init.eps, weights.weight.or_null, weights.bias.or_null,
                      row.weight);
      store(args.out, offset(args.out, t), channels, row.x);
    }
  }
};
FK_OP(layer_norm, LayerNorm);

}  // namespace
}  // namespace fk::reference
