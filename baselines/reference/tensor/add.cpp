// SPDX-License-Identifier: Apache-2.0
// add: out = a + b.
#include "fk/ops/add.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct Add : Base<add> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.a, max.b, max.out);
    need.scratch = init.size * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    double* sum = Scratch(ctx).take(init.size);
    for (int64_t t = 0; t < args.a->shape[0]; ++t) {
      load(args.a, offset(args.a, t), init.size, sum);
      add_scaled(args.b, offset(args.b, t), init.size, 1, sum);
      store(args.out, offset(args.out, t), init.size, sum);
    }
  }
};
FK_OP(add, Add);

}  // namespace
}  // namespace fk::reference
