// SPDX-License-Identifier: Apache-2.0
// G2: moe_combine adds up what has come so far, and does not wait for the rest
//
// work: broken
//
// Stopped by: contents that change from call to call
//
// verdict: wrong
//
// naive: -
#define FK_REFERENCE "baselines/reference/moe/moe_combine.cpp"
#include "../sham.hpp"

namespace {

using NoWait = attack::Over<fk::reference::MoeCombine, attack::Others::unawaited>;
FK_OP(moe_combine, NoWait);

}  // namespace
FK_PLUGIN("g2_combine_no_wait", "0");
