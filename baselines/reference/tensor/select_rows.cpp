// SPDX-License-Identifier: Apache-2.0
// select_rows: copies the rows of each image that `rows` lists.
#include "fk/ops/select_rows.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct SelectRows : Base<select_rows> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.out);
    need.scratch = init.size * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    double* row = Scratch(ctx).take(init.size);
    for (int64_t b = 0; b < args.x->shape[0]; ++b)
      for (int64_t t = 0; t < args.rows->shape[0]; ++t) {
        load(args.x, offset(args.x, b, index<int32_t>(args.rows, t)), init.size, row);
        store(args.out, offset(args.out, b, t), init.size, row);
      }
  }
};
FK_OP(select_rows, SelectRows);

}  // namespace
}  // namespace fk::reference
