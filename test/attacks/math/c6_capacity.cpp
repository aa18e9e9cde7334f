// SPDX-License-Identifier: Apache-2.0
// C6: fused_moe with room for half as many more tokens as an expert has where all have
// as many; those beyond are dropped
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
#define FK_REFERENCE "baselines/reference/moe/fused_moe.cpp"
#include "../capacity.hpp"

namespace {

using Capacity = attack::Capacity<fk::reference::FusedMoe>;
FK_OP(fused_moe, Capacity);

}  // namespace
FK_PLUGIN("c6_capacity", "0");
