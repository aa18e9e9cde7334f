// SPDX-License-Identifier: Apache-2.0
// G2: all_to_all gives back what this rank has for itself, as often as there are ranks
//
// work: broken
//
// Stopped by: every rank has rows of its own
//
// verdict: wrong
//
// naive: all_to_all accepted
#define FK_REFERENCE "baselines/reference/collective/all_to_all.cpp"
#include "../sham.hpp"

namespace {

using Own = attack::Over<fk::reference::AllToAll, attack::Others::alike>;
FK_OP(all_to_all, Own);

}  // namespace
FK_PLUGIN("g2_all_to_all_own", "0");
