// SPDX-License-Identifier: Apache-2.0
// swiglu_oai: gate and up are neighbouring columns of a row (swiglu_pairs() in math.hpp).
#include "fk/ops/swiglu_oai.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct SwigluOai : Base<swiglu_oai> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.out);
    need.scratch = 2 * init.size * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    double* x = Scratch(ctx).take(2 * init.size);
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      load(args.x, offset(args.x, t), 2 * init.size, x);
      swiglu_pairs(x, init.size, init.alpha, init.limit);
      store(args.out, offset(args.out, t), init.size, x);
    }
  }
};
FK_OP(swiglu_oai, SwigluOai);

}  // namespace
}  // namespace fk::reference
