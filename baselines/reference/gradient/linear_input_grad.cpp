// SPDX-License-Identifier: Apache-2.0
// linear_input_grad: rows of gradients times the weight.
#include "fk/ops/linear_input_grad.h"
#include "gradient.hpp"
#include "op.hpp"

namespace fk::reference {
namespace {

struct LinearInputGrad : Base<linear_input_grad> {
  using Base::Base;
  struct Rows {
    double *grad, *out;
    Rows(Scratch& s, const op::init& i)
        : grad(s.take(i.out_features)), out(s.take(i.in_features)) {}
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.grad, max.weight, max.out);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    for (int64_t m = 0; m < args.grad->shape[0]; ++m) {
      load(args.grad, offset(args.grad, m), init.out_features, row.grad);
      vector_matrix(row.grad, args.weight, 0, init.out_features, init.in_features, row.out);
      store(args.out, offset(args.out, m), init.in_features, row.out);
    }
  }
};
FK_OP(linear_input_grad, LinearInputGrad);

}  // namespace
}  // namespace fk::reference
