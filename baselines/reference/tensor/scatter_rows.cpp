// SPDX-License-Identifier: Apache-2.0
// scatter_rows: out[rows[t]] = x[t].
#include "fk/ops/scatter_rows.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct ScatterRows : Base<scatter_rows> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.out);
    need.scratch = init.size * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    double* row = Scratch(ctx).take(init.size);
    for (int64_t t = 0; t < args.rows->shape[0]; ++t) {
      load(args.x, offset(args.x, t), init.size, row);
      store(args.out, offset(args.out, index<int32_t>(args.rows, t)), init.size, row);
    }
  }
};
FK_OP(scatter_rows, ScatterRows);

}  // namespace
}  // namespace fk::reference
