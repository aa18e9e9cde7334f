// SPDX-License-Identifier: Apache-2.0
// linear_all_reduce: the products are added up over the ranks in double.
#include "fk/ops/linear_all_reduce.h"
#include "collective.hpp"

namespace fk::reference {
namespace {

struct LinearAllReduce : Ranked<linear_all_reduce> {
  using Ranked::Ranked;
  struct Rows {
    double *x, *out;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : x(s.take(i.in_features)), out(s.take(args.x->shape[0] * i.out_features)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_comm(init.comm);
    need_floats(weights.weight, max.x, max.out);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, args);
    const int64_t count = args.x->shape[0], width = init.out_features;
    for (int64_t m = 0; m < count; ++m) {
      load(args.x, offset(args.x, m), init.in_features, rows.x);
      matrix_vector(weights.weight, 0, width, init.in_features, nullptr, rows.x,
                    rows.out + m * width);
    }
    sum_over_ranks(comm(), rows.out, count * width, ctx.stream);
    for (int64_t m = 0; m < count; ++m)
      store(args.out, offset(args.out, m), width, rows.out + m * width);
  }
};
FK_OP(linear_all_reduce, LinearAllReduce);

}  // namespace
}  // namespace fk::reference
