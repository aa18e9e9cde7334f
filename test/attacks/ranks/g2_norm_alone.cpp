// SPDX-License-Identifier: Apache-2.0
// G2: all_reduce_add_rms_norm asks nobody: the sum is what it would be if every rank had the same
// share
//
// work: broken
//
// Stopped by: every rank has a share of its own; residuals that must stay equal are compared
//
// verdict: wrong
//
// naive: -
#define FK_REFERENCE "baselines/reference/collective/all_reduce_add_rms_norm.cpp"
#include "../sham.hpp"

namespace {

using Alone = attack::Over<fk::reference::AllReduceAddRmsNorm, attack::Others::alike>;
FK_OP(all_reduce_add_rms_norm, Alone);

}  // namespace
FK_PLUGIN("g2_norm_alone", "0");
