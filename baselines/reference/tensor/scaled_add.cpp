// SPDX-License-Identifier: Apache-2.0
// scaled_add: out = x + scale * y; x may be absent.
#define FK_SCALED_ADD_EDITION 2
#include "fk/ops/scaled_add.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct ScaledAdd : Base<scaled_add> {
  using Base::Base;
  struct Rows {
    double *y, *gate, *sum;
    Rows(Scratch& s, const op::init& i)
        : y(s.take(i.size)), gate(s.take(i.size)), sum(s.take(i.size)) {}
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x.or_null, max.y, max.gate.or_null, max.out);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    const int64_t rows = args.y->shape[0];
    std::fill_n(row.gate, init.size, 1.0);
    for (int64_t t = 0; t < rows; ++t) {
      std::fill_n(row.sum, init.size, 0.0);
      if (const fk_in* x = args.x.or_null) load(x, offset(x, t), init.size, row.sum);
      if (const fk_in* gate = args.gate.or_null)
        load(gate, offset(gate, init.gate_rows ? t / init.gate_rows % gate->shape[0] : 0),
             init.size, row.gate);
      load(args.y, offset(args.y, t), init.size, row.y);
      for (int64_t c = 0; c < init.size; ++c) row.sum[c] += init.scale * row.gate[c] * row.y[c];
      store(args.out, offset(args.out, t), init.size, row.sum);
    }
  }
};
FK_OP(scaled_add, ScaledAdd);

}  // namespace
}  // namespace fk::reference
