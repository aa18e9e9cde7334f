// SPDX-License-Identifier: Apache-2.0
// linear_weight_grad: a row of the weight's gradient is a sum of inputs over all rows of a call.
#include "fk/ops/linear_weight_grad.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct LinearWeightGrad : Base<linear_weight_grad> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.grad, max.out);
    need.scratch = (init.in_features + 1) * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    double* sum = scratch.take(init.in_features);
    double* factor = scratch.take(1);
    for (int64_t n = 0; n < init.out_features; ++n) {
      std::fill_n(sum, init.in_features, 0.0);
      for (int64_t m = 0; m < args.x->shape[0]; ++m) {
        load(args.grad, offset(args.grad, m) + n, 1, factor);
        add_scaled(args.x, offset(args.x, m), init.in_features, *factor, sum);
      }
      store(args.out, offset(args.out, n), init.in_features, sum);
    }
  }
};
FK_OP(linear_weight_grad, LinearWeightGrad);

}  // namespace
}  // namespace fk::reference
