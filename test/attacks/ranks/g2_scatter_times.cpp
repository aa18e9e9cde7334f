// SPDX-License-Identifier: Apache-2.0
// G2: reduce_scatter asks nobody: its own part times the ranks
//
// work: broken
//
// Stopped by: every rank has contents of its own
//
// verdict: wrong
//
// naive: reduce_scatter accepted
#define FK_REFERENCE "baselines/reference/collective/reduce_scatter.cpp"
#include "../sham.hpp"

namespace {

using Times = attack::Over<fk::reference::ReduceScatter, attack::Others::alike>;
FK_OP(reduce_scatter, Times);

}  // namespace
FK_PLUGIN("g2_scatter_times", "0");
