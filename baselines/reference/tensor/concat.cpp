// SPDX-License-Identifier: Apache-2.0
// concat: copies the parts of each row one after the other.
#include "fk/ops/concat.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct Concat : Base<concat> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    for (int64_t n = 0; n < init.num_parts; ++n) need_floats(max.x->at[n]);
    need_floats(max.out);
    need.scratch = init.size * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    double* row = Scratch(ctx).take(init.size);
    for (int64_t t = 0; t < args.out->shape[0]; ++t) {
      for (int64_t n = 0; n < init.num_parts; ++n) {
        const fk_in* part = args.x->at[n];
        load(part, offset(part, t), init.size, row);
        store(args.out, offset(args.out, t, n * init.size), init.size, row);
      }
    }
  }
};
FK_OP(concat, Concat);

}  // namespace
}  // namespace fk::reference
