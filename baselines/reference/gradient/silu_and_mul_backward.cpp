// SPDX-License-Identifier: Apache-2.0
// silu_and_mul_backward: silu_halves_backward() of gradient.hpp for each row.
#include "fk/ops/silu_and_mul_backward.h"
#include "gradient.hpp"
#include "op.hpp"

namespace fk::reference {
namespace {

struct SiluAndMulBackward : Base<silu_and_mul_backward> {
  using Base::Base;
  struct Rows {
    double *x, *grad;
    Rows(Scratch& s, const op::init& i) : x(s.take(2 * i.size)), grad(s.take(i.size)) {}
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.grad, max.out);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      load(args.x, offset(args.x, t), 2 * init.size, row.x);
      load(args.grad, offset(args.grad, t), init.size, row.grad);
      silu_halves_backward(row.x, init.size, row.grad);
      store(args.out, offset(args.out, t), 2 * init.size, row.x);
    }
  }
};
FK_OP(silu_and_mul_backward, SiluAndMulBackward);

}  // namespace
}  // namespace fk::reference
