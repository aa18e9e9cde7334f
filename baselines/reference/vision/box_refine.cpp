// SPDX-License-Identifier: Apache-2.0
// box_refine: adds to the logits of numbers between 0 and 1.
#include "fk/ops/box_refine.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct BoxRefine : Base<box_refine> {
  using Base::Base;
  struct Rows {
    double *delta, *box;
    Rows(Scratch& s, const op::init& i) : delta(s.take(i.size)), box(s.take(i.size)) {}
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.delta, max.reference, max.out);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    for (int64_t t = 0; t < args.out->shape[0]; ++t) {
      load(args.delta, offset(args.delta, t), init.size, row.delta);
      load(args.reference, offset(args.reference, t), init.size, row.box);
      for (int64_t c = 0; c < init.size; ++c) {
        const double r = std::clamp(row.box[c], 0.0, 1.0);
        const double logit = std::log(std::max(r, init.eps) / std::max(1 - r, init.eps));
        row.box[c] = 1 / (1 + std::exp(-(row.delta[c] + logit)));
      }
      store(args.out, offset(args.out, t), init.size, row.box);
    }
  }
};
FK_OP(box_refine, BoxRefine);

}  // namespace
}  // namespace fk::reference
