// SPDX-License-Identifier: Apache-2.0
// batched_linear: for each row and head, a product with the head's matrix.
#include "fk/ops/batched_linear.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct BatchedLinear : Base<batched_linear> {
  using Base::Base;
  struct Rows {
    double *x, *out;
    Rows(Scratch& s, const op::init& i) : x(s.take(i.in_features)), out(s.take(i.out_features)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.weight, max.x, max.out);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    for (int64_t m = 0; m < args.x->shape[0]; ++m) {
      for (int64_t h = 0; h < init.num_heads; ++h) {
        load(args.x, offset(args.x, m, h), init.in_features, row.x);
        matrix_vector(weights.weight, offset(weights.weight, h), init.out_features,
                      init.in_features, nullptr, row.x, row.out);
        store(args.out, offset(args.out, m, h), init.out_features, row.out);
      }
    }
  }
};
FK_OP(batched_linear, BatchedLinear);

}  // namespace
}  // namespace fk::reference
