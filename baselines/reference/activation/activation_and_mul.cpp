// SPDX-License-Identifier: Apache-2.0
// activation_and_mul: a function of the first half of a row, the gate, times the second half.
#include "fk/ops/activation_and_mul.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct ActivationAndMul : Base<activation_and_mul> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.out);
    need.scratch = 2 * init.size * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    double* x = Scratch(ctx).take(2 * init.size);
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      load(args.x, offset(args.x, t), 2 * init.size, x);
      for (int64_t f = 0; f < init.size; ++f) x[f] = gate(x[f]) * x[init.size + f];
      store(args.out, offset(args.out, t), init.size, x);
    }
  }

 private:
  double gate(double x) const {
    switch (init.kind) {
      case FK_ACTIVATION_AND_MUL_KIND_GELU:
        return reference::gelu(x, false);
      case FK_ACTIVATION_AND_MUL_KIND_GELU_TANH:
        return reference::gelu(x, true);
      case FK_ACTIVATION_AND_MUL_KIND_SILU:
        return silu(x);
      case FK_ACTIVATION_AND_MUL_KIND_RELU:
        return std::max(x, 0.0);
      case FK_ACTIVATION_AND_MUL_KIND_RELU2:
        return std::max(x, 0.0) * std::max(x, 0.0);
      default:
        return 1 / (1 + std::exp(-x));
    }
  }
};
FK_OP(activation_and_mul, ActivationAndMul);

}  // namespace
}  // namespace fk::reference
