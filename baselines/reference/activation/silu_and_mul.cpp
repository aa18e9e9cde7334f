// SPDX-License-Identifier: Apache-2.0
// silu_and_mul: silu of the first half of a row, the gate, times the second half.
#include "fk/ops/silu_and_mul.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct SiluAndMul : Base<silu_and_mul> {
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
      for (int64_t f = 0; f < init.size; ++f) x[f] = silu(x[f]) * x[init.size + f];
      store(args.out, offset(args.out, t), init.size, x);
    }
  }
};
FK_OP(silu_and_mul, SiluAndMul);

}  // namespace
}  // namespace fk::reference
