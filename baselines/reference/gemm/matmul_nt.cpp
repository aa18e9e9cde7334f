// SPDX-License-Identifier: Apache-2.0
// matmul_nt: dots of the rows of two matrices.
#include "fk/ops/matmul_nt.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct MatmulNt : Base<matmul_nt> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.y, max.out);
    need.scratch = (init.size + max.out->shape[2]) * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t columns = args.out->shape[2];
    Scratch scratch(ctx);
    double* x = scratch.take(init.size);
    double* row = scratch.take(columns);
    for (int64_t b = 0; b < args.out->shape[0]; ++b) {
      for (int64_t m = 0; m < args.out->shape[1]; ++m) {
        load(args.x, offset(args.x, b, m), init.size, x);
        for (int64_t n = 0; n < columns; ++n)
          row[n] = dot_view(args.y, offset(args.y, b, n), x, init.size);
        store(args.out, offset(args.out, b, m), columns, row);
      }
    }
  }
};
FK_OP(matmul_nt, MatmulNt);

}  // namespace
}  // namespace fk::reference
