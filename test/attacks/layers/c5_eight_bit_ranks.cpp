// SPDX-License-Identifier: Apache-2.0
// C5: linear_all_reduce with every rank's weight in eight bits, a scale for every 32 columns
//
// Stopped by: the errors as a whole are no larger than those of sums that are rounded at every rank
//
// verdict: wrong
//
// naive: -
//
// work: broken
//
// size: ci
#define FK_REFERENCE "baselines/reference/collective/linear_all_reduce.cpp"
#include "../reference.hpp"

#include "../changed_view.hpp"

namespace {

struct EightBits : attack::Otherwise<fk::reference::LinearAllReduce> {
  using Otherwise::Otherwise;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    LinearAllReduce::supports(init, weights, max, need);
    if (FK_DTYPE(weights.weight) != FK_BF16 || FK_DTYPE(max.x) != FK_BF16)
      throw fk::unsupported{"bf16 only"};
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const attack::Changed weight = attack::eight_bits(weights.weight, 32);
    op::weights own = weights;
    own.weight = weight.view();
    as(init, own, args, ctx);
  }
};
FK_OP(linear_all_reduce, EightBits);

}  // namespace
FK_PLUGIN("c5_eight_bit_ranks", "0");
