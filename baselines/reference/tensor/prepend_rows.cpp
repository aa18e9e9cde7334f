// SPDX-License-Identifier: Apache-2.0
// prepend_rows: copies the prefix and an image's rows behind one another.
#define FK_PREPEND_ROWS_EDITION 2  // with the field that the contract marks `since: 2`
#include "fk/ops/prepend_rows.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct PrependRows : Base<prepend_rows> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.prefix.or_null, max.before.or_null, max.x, max.out);
    if (init.prefix_rows > 0 && !max.prefix.or_null && !max.before.or_null)
      throw unsupported{"prefix_rows: without prefix and before it is 0"};
    if (max.prefix.or_null && max.before.or_null)
      throw unsupported{"before: not together with prefix"};
    need.scratch = init.size * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    double* row = Scratch(ctx).take(init.size);
    const fk_in *prefix = args.prefix.or_null, *own = args.before.or_null;
    const int64_t before = prefix ? prefix->shape[0] : own ? own->shape[1] : 0;
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      for (int64_t t = 0; t < before + args.x->shape[1]; ++t) {
        if (t < before && own)
          load(own, offset(own, b, t), init.size, row);
        else if (t < before)
          load(prefix, offset(prefix, t), init.size, row);
        else
          load(args.x, offset(args.x, b, t - before), init.size, row);
        store(args.out, offset(args.out, b, t), init.size, row);
      }
    }
  }
};
FK_OP(prepend_rows, PrependRows);

}  // namespace
}  // namespace fk::reference
