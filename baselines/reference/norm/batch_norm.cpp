// SPDX-License-Identifier: Apache-2.0
// batch_norm: every row with the stored mean and variance of its channels, then the activation.
#include "fk/ops/batch_norm.h"
#include "image.hpp"

namespace fk::reference {
namespace {

struct BatchNorm : Base<batch_norm> {
  using Base::Base;
  struct Rows {
    ChannelAffine affine;
    double* x;
    Rows(Scratch& s, const op::init& i) : affine(s, i.size), x(s.take(i.size)) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_floats(w.weight.or_null, w.bias.or_null, w.mean, w.variance, max.x, max.out);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    Rows rows(scratch, init);
    rows.affine.read(weights.weight.or_null, weights.bias.or_null, weights.mean, weights.variance,
                     init.eps);
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      load(args.x, offset(args.x, t), init.size, rows.x);
      rows.affine.apply(rows.x, static_cast<PixelActivation>(init.activation));
      store(args.out, offset(args.out, t), init.size, rows.x);
    }
  }
};
FK_OP(batch_norm, BatchNorm);

}  // namespace
}  // namespace fk::reference
