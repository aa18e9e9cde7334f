// SPDX-License-Identifier: Apache-2.0
// topk_positions: choose_largest() of every row (index.hpp).
#include "fk/ops/topk_positions.h"
#include "index.hpp"

namespace fk::reference {
namespace {

struct TopkPositions : Base<topk_positions> {
  using Base::Base;
  struct Rows {
    double* x;
    int64_t* order;
    Rows(Scratch& s, const op::forward& args)
        : x(s.take(args.x->shape[1])),
          order(reinterpret_cast<int64_t*>(s.take(args.x->shape[1]))) {}
  };
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need& need) {
    need_floats(max.x);
    need.scratch = scratch_bytes<Rows>(max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, args);
    const int64_t count = args.x->shape[1];
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      load(args.x, offset(args.x, t), count, row.x);
      const int64_t counts = std::min(count, index<int64_t>(args.positions, t) + 1);
      choose_largest(row.x, counts, init.top_k, row.order,
                     data<int32_t>(args.ids) + offset(args.ids, t));
    }
  }
};
FK_OP(topk_positions, TopkPositions);

}  // namespace
}  // namespace fk::reference
