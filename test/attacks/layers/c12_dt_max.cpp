// SPDX-License-Identifier: Apache-2.0
// C12: mamba2_block that limits dt above where it is limited below as well
//
// Stopped by: a small case has the one limit without the other
//
// verdict: wrong
//
// naive: -
//
// work: broken
#define FK_REFERENCE "baselines/reference/recurrence/mamba2_block.cpp"
#include "../reference.hpp"

namespace {

struct Limit : attack::Otherwise<fk::reference::Mamba2Block> {
  using Otherwise::Otherwise;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    op::init own = init;
    if (init.dt_min == 0) own.dt_max = 0;
    as(own, weights, args, ctx);
  }
};
FK_OP(mamba2_block, Limit);

}  // namespace
FK_PLUGIN("c12_dt_max", "0");
