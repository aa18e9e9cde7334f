// SPDX-License-Identifier: Apache-2.0
// silu_and_mul_quantize: silu of the gate, times the other half of a row, as codes.
#include "fk/ops/silu_and_mul_quantize.h"
#include "quantize.hpp"

namespace fk::reference {
namespace {

struct SiluAndMulQuantize : Base<silu_and_mul_quantize> {
  using Base::Base;
  struct Rows {
    double* both;
    QuantizeRows quantize;
    Rows(Scratch& s, const Groups& g) : both(s.take(2 * g.columns)), quantize(s, g) {}
  };
  static Groups groups(const op::init& i) {
    return {i.size, i.group_rows, i.group_columns, 448, i.eps, i.power_of_two != 0};
  }
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x);
    need_codes(max.out);
    need.scratch = scratch_bytes<Rows>(groups(init));
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, groups(init));
    quantize(groups(init), args.x->shape[0], args.scale, rows.quantize, args.out, args.scale_out,
             [&](int64_t t, double* row) {
               load(args.x, offset(args.x, t), 2 * init.size, rows.both);
               for (int64_t f = 0; f < init.size; ++f)
                 row[f] = silu(rows.both[f]) * rows.both[init.size + f];
             });
  }
};
FK_OP(silu_and_mul_quantize, SiluAndMulQuantize);

}  // namespace
}  // namespace fk::reference
