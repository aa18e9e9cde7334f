// SPDX-License-Identifier: Apache-2.0
// global_response_norm: respond() of image.hpp for each image.
#include "fk/ops/global_response_norm.h"
#include "image.hpp"

namespace fk::reference {
namespace {

struct GlobalResponseNorm : Base<global_response_norm> {
  using Base::Base;
  struct Rows {
    double *x, *norms, *row;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : x(s.take(args.x->shape[1] * args.x->shape[2] * i.hidden_size)),
          norms(s.take(i.hidden_size)),
          row(s.take(i.hidden_size)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.weight, weights.bias, max.x, max.out);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, args);
    const int64_t positions = args.x->shape[1] * args.x->shape[2];
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      load(args.x, offset(args.x, b), positions * init.hidden_size, rows.x);
      respond(rows.x, positions, init.hidden_size, init.eps, weights.weight, weights.bias,
              rows.norms, rows.row);
      store(args.out, offset(args.out, b), positions * init.hidden_size, rows.x);
    }
  }
};
FK_OP(global_response_norm, GlobalResponseNorm);

}  // namespace
}  // namespace fk::reference
