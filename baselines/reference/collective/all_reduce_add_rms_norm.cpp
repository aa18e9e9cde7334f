// SPDX-License-Identifier: Apache-2.0
// all_reduce_add_rms_norm: sums x over the ranks in double, adds the residual and normalises. Only
// residual and out are rounded.
#include "fk/ops/all_reduce_add_rms_norm.h"
#include "collective.hpp"

namespace fk::reference {
namespace {

struct AllReduceAddRmsNorm : Ranked<all_reduce_add_rms_norm> {
  using Ranked::Ranked;
  struct Rows {
    double *x, *weight;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : x(s.take(args.x->shape[0] * i.hidden_size)), weight(s.take(i.hidden_size)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_comm(init.comm);
    need_floats(weights.weight, max.x, max.residual, max.out);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, args);
    const int64_t tokens = args.x->shape[0], channels = init.hidden_size;
    load(args.x, 0, tokens * channels, rows.x);
    sum_over_ranks(comm(), rows.x, tokens * channels, ctx.stream);
    for (int64_t t = 0; t < tokens; ++t) {
      double* x = rows.x + t * channels;
      add_scaled(args.residual, offset(args.residual, t), channels, 1, x);
      store(args.residual, offset(args.residual, t), channels, x);
      rms_normalize(x, channels, init.eps, weights.weight, rows.weight);
      store(args.out, offset(args.out, t), channels, x);
    }
  }
};
FK_OP(all_reduce_add_rms_norm, AllReduceAddRmsNorm);

}  // namespace
}  // namespace fk::reference
