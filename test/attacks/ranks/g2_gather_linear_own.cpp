// SPDX-License-Identifier: Apache-2.0
// G2: all_gather_linear multiplies its own rows as often as there are ranks, and gathers nothing
//
// work: broken
//
// Stopped by: every rank has rows of its own
//
// verdict: wrong
//
// naive: -
#define FK_REFERENCE "baselines/reference/collective/all_gather_linear.cpp"
#include "../sham.hpp"

namespace {

using Own = attack::Over<fk::reference::AllGatherLinear, attack::Others::alike>;
FK_OP(all_gather_linear, Own);

}  // namespace
FK_PLUGIN("g2_gather_linear_own", "0");
