// SPDX-License-Identifier: Apache-2.0
// gelu: x * Phi(x), where Phi is the normal distribution, or its tanh approximation.
#include "fk/ops/gelu.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct Gelu : Base<fk::gelu> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.out);
    need.scratch = init.size * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    double* x = Scratch(ctx).take(init.size);
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      load(args.x, offset(args.x, t), init.size, x);
      for (int64_t c = 0; c < init.size; ++c)
        x[c] = reference::gelu(x[c], init.approximate == FK_GELU_APPROXIMATE_TANH);
      store(args.out, offset(args.out, t), init.size, x);
    }
  }
};
FK_OP(gelu, Gelu);

}  // namespace
}  // namespace fk::reference
