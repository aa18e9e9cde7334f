// SPDX-License-Identifier: Apache-2.0
// quantize_fp8: codes of f8e4m3 with scales for groups of rows and columns.
#include "fk/ops/quantize_fp8.h"
#include "quantize.hpp"

namespace fk::reference {
namespace {

struct QuantizeFp8 : Base<quantize_fp8> {
  using Base::Base;
  static Groups groups(const op::init& i) {
    return {i.size, i.group_rows, i.group_columns, 448, i.eps, i.power_of_two != 0};
  }
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x);
    need_codes(max.out);
    need.scratch = scratch_bytes<QuantizeRows>(groups(init));
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const QuantizeRows rows(scratch, groups(init));
    quantize(groups(init), args.x->shape[0], args.scale, rows, args.out, args.scale_out,
             [&](int64_t t, double* row) { load(args.x, offset(args.x, t), init.size, row); });
  }
};
FK_OP(quantize_fp8, QuantizeFp8);

}  // namespace
}  // namespace fk::reference
