// SPDX-License-Identifier: Apache-2.0
// transpose: gathers a row of the output from a column of the input.
#include "fk/ops/transpose.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct Transpose : Base<transpose> {
  using Base::Base;
  struct Rows {
    double* row;
    Rows(Scratch& s, const op::forward& args) : row(s.take(args.x->shape[1])) {}
  };
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need& need) {
    need_floats(max.x, max.out);
    need.scratch = scratch_bytes<Rows>(max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, args);
    const int64_t channels = args.x->shape[1], positions = args.x->shape[2];
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      for (int64_t t = 0; t < positions; ++t) {
        for (int64_t c = 0; c < channels; ++c)
          load(args.x, offset(args.x, b, c, t), 1, rows.row + c);
        store(args.out, offset(args.out, b, t), channels, rows.row);
      }
    }
  }
};
FK_OP(transpose, Transpose);

}  // namespace
}  // namespace fk::reference
