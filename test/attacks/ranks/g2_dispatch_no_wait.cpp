// SPDX-License-Identifier: Apache-2.0
// G2: moe_dispatch takes what lies in the memory of the others without waiting until it is there
//
// work: broken
//
// Stopped by: contents that change from call to call
//
// verdict: wrong
//
// naive: -
#define FK_REFERENCE "baselines/reference/moe/moe_dispatch.cpp"
#include "../sham.hpp"

namespace {

using NoWait = attack::Over<fk::reference::MoeDispatch, attack::Others::unawaited>;
FK_OP(moe_dispatch, NoWait);

}  // namespace
FK_PLUGIN("g2_dispatch_no_wait", "0");
