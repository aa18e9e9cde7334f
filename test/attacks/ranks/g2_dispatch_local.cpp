// SPDX-License-Identifier: Apache-2.0
// G2: moe_dispatch of this rank's own tokens: those of the others are not asked for
//
// work: broken
//
// Stopped by: what every rank gets is compared, and how many rows it is
//
// verdict: wrong
//
// naive: -
#define FK_REFERENCE "baselines/reference/moe/moe_dispatch.cpp"
#include "../sham.hpp"

namespace {

using Local = attack::Over<fk::reference::MoeDispatch, attack::Others::silent>;
FK_OP(moe_dispatch, Local);

}  // namespace
FK_PLUGIN("g2_dispatch_local", "0");
