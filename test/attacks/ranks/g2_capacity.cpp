// SPDX-License-Identifier: Apache-2.0
// G2: fused_moe_ep whose experts have room for one and a half times the even number of a rank's
// tokens; further tokens are dropped
//
// work: broken
//
// size: ci
//
// Stopped by: with hidden rows some experts are busy
//
// verdict: wrong
//
// naive: -
#define FK_REFERENCE "baselines/reference/moe/fused_moe_ep.cpp"
#include "../capacity.hpp"

namespace {

using Capacity = attack::Capacity<fk::reference::FusedMoeEp>;
FK_OP(fused_moe_ep, Capacity);

}  // namespace
FK_PLUGIN("g2_capacity", "0");
