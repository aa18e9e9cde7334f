// SPDX-License-Identifier: Apache-2.0
// G2: fused_moe_ep with the experts of this rank alone: what others' would add is left out
//
// work: broken
//
// Stopped by: every rank's outputs are compared; errors are shares of the spread
//
// verdict: wrong
//
// naive: -
#define FK_REFERENCE "baselines/reference/moe/fused_moe_ep.cpp"
#include "../sham.hpp"

namespace {

using Local = attack::Over<fk::reference::FusedMoeEp, attack::Others::silent>;
FK_OP(fused_moe_ep, Local);

}  // namespace
FK_PLUGIN("g2_experts_local", "0");
