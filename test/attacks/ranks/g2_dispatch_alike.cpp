// SPDX-License-Identifier: Apache-2.0
// G2: moe_dispatch as if every rank had this one's tokens; the number of rows is right if experts
// are chosen evenly
//
// work: broken
//
// Stopped by: every rank has contents of its own
//
// verdict: wrong
//
// naive: -
#define FK_REFERENCE "baselines/reference/moe/moe_dispatch.cpp"
#include "../sham.hpp"

namespace {

using Alike = attack::Over<fk::reference::MoeDispatch, attack::Others::alike>;
FK_OP(moe_dispatch, Alike);

}  // namespace
FK_PLUGIN("g2_dispatch_alike", "0");
