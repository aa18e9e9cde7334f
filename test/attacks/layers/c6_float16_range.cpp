// SPDX-License-Identifier: Apache-2.0
// C6: linear of bfloat16 by way of float16, which has three bits more and ends at 65504
//
// Stopped by: large bfloat16 is more than float16 holds
//
// verdict: wrong
//
// naive: -
//
// work: broken
//
// size: ci
#define FK_REFERENCE "baselines/reference/gemm/linear.cpp"
#include "../reference.hpp"

#include "../changed_view.hpp"

namespace {

struct Float16 : attack::Otherwise<fk::reference::Linear> {
  using Otherwise::Otherwise;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    Linear::supports(init, weights, max, need);
    if (FK_DTYPE(max.x) != FK_BF16 || FK_DTYPE(weights.weight) != FK_BF16)
      throw fk::unsupported{"bf16 only"};
  }
  static attack::Changed through(const fk_in* from) {
    attack::Changed out(from);
    for (float& v : out.values())
      if (std::abs(v) > 65504) v = std::copysign(INFINITY, v);
    return out;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const attack::Changed weight = through(weights.weight), x = through(args.x);
    op::weights own = weights;
    own.weight = weight.view();
    op::forward own_args = args;
    own_args.x = x.view();
    as(init, own, own_args, ctx);
  }
};
FK_OP(linear, Float16);

}  // namespace
FK_PLUGIN("c6_float16_range", "0");
