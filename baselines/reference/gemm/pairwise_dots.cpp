// SPDX-License-Identifier: Apache-2.0
// pairwise_dots: one dot product for each pair of a request's rows.
#include "fk/ops/pairwise_dots.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct PairwiseDots : Base<pairwise_dots> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.out);
    need.scratch = (init.size + max.x->shape[1]) * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t features = args.x->shape[1];
    Scratch scratch(ctx);
    double* x = scratch.take(init.size);
    double* dots = scratch.take(features);
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      int64_t at = offset(args.out, b);
      for (int64_t i = 0; i + 1 < features; ++i) {
        load(args.x, offset(args.x, b, i), init.size, x);
        const int64_t count = features - i - 1;
        for (int64_t j = 0; j < count; ++j)
          dots[j] = dot_view(args.x, offset(args.x, b, i + 1 + j), x, init.size);
        store(args.out, at, count, dots);
        at += count;
      }
    }
  }
};
FK_OP(pairwise_dots, PairwiseDots);

}  // namespace
}  // namespace fk::reference
