// SPDX-License-Identifier: Apache-2.0
// C12: self_attention that makes positions from the lengths, and reads the field where there is a
// tree alone
//
// Stopped by: a small case without a tree has positions that do not follow from lengths
//
// verdict: wrong
//
// naive: -
//
// work: broken
#define FK_REFERENCE "baselines/reference/attention/self_attention.cpp"
#include "../reference.hpp"
#include "positions.hpp"

namespace {

using Right = fk::reference::SelfAttentionOf<fk::self_attention>;
struct Positions : Right {
  using Right::Right;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    std::vector<int64_t> made = attack::positions_by_lengths(args);
    fk_in positions = *args.positions;
    if (!args.tree_mask.or_null) positions.data = made.data();
    op::forward own = args;
    own.positions = &positions;
    Right::forward(own, ctx);
  }
};
FK_OP(self_attention, Positions);

}  // namespace
FK_PLUGIN("c12_positions", "0");
