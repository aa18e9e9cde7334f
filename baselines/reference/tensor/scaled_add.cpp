// SPDX-License-Identifier: Apache-2.0
// scaled_add: out = x + scale * y; x may be absent.
#include "fk/ops/scaled_add.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct ScaledAdd : Base<scaled_add> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x.or_null, max.y, max.out);
    need.scratch = init.size * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    double* sum = Scratch(ctx).take(init.size);
    for (int64_t t = 0; t < args.y->shape[0]; ++t) {
      for (int64_t c = 0; c < init.size; ++c) sum[c] = 0;
      if (const fk_in* x = args.x.or_null) load(x, offset(x, t), init.size, sum);
      add_scaled(args.y, offset(args.y, t), init.size, init.scale, sum);
      store(args.out, offset(args.out, t), init.size, sum);
    }
  }
};
FK_OP(scaled_add, ScaledAdd);

}  // namespace
}  // namespace fk::reference
