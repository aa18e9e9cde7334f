// SPDX-License-Identifier: Apache-2.0
// G2: moe_combine of what this rank's own experts say to its own tokens
//
// work: broken
//
// Stopped by: every rank's outputs are compared
//
// verdict: wrong
//
// naive: -
#define FK_REFERENCE "baselines/reference/moe/moe_combine.cpp"
#include "../sham.hpp"

namespace {

using Local = attack::Over<fk::reference::MoeCombine, attack::Others::silent>;
FK_OP(moe_combine, Local);

}  // namespace
FK_PLUGIN("g2_combine_local", "0");
