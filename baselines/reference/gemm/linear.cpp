// SPDX-License-Identifier: Apache-2.0
// linear: for each row of x, a dot product with every row of the weight.
#include "fk/ops/linear.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct Linear : Base<fk::linear> {
  using Base::Base;
  struct Rows {
    double *x, *out;
    Rows(Scratch& s, const op::init& i) : x(s.take(i.in_features)), out(s.take(i.out_features)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.weight, weights.bias.or_null, max.x, max.out);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    for (int64_t m = 0; m < args.x->shape[0]; ++m) {
      load(args.x, offset(args.x, m), init.in_features, row.x);
      matrix_vector(weights.weight, 0, init.out_features, init.in_features, weights.bias.or_null,
                    row.x, row.out);
      store(args.out, offset(args.out, m), init.out_features, row.out);
    }
  }
};
FK_OP(linear, Linear);

}  // namespace
}  // namespace fk::reference
