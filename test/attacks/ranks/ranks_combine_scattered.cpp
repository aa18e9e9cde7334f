// SPDX-License-Identifier: Apache-2.0
// honest: several ranks: moe_combine by a reduce_scatter of what all experts say, with zeros where
// another rank's do
#define FK_REFERENCE "baselines/reference/moe/moe_combine.cpp"
#include "../sham.hpp"

namespace {

using Scattered = attack::Over<fk::reference::MoeCombine, attack::Others::apart>;
FK_OP(moe_combine, Scattered);

}  // namespace
FK_PLUGIN("ranks_combine_scattered", "0");
