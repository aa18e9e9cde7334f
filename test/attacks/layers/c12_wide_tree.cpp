// SPDX-License-Identifier: Apache-2.0
// C12: tree_attention whose mask is a word of 64 bits: no query sees a node beyond the 64th
//
// Stopped by: a small case has a tree of 70 nodes
//
// verdict: wrong
//
// naive: -
//
// work: broken
#include <vector>
#define FK_REFERENCE "baselines/reference/attention/tree_attention.cpp"
#include "../reference.hpp"

namespace {

struct WideTree : fk::reference::TreeAttention {
  using TreeAttention::TreeAttention;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t tokens = args.tree_mask->shape[0], nodes = args.tree_mask->shape[1];
    const auto* mask = fk::data<int32_t>(args.tree_mask);
    std::vector<int32_t> made(mask, mask + tokens * nodes);
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t j = 64; j < nodes; ++j) made[size_t(t * nodes + j)] = 0;
    fk_in tree_mask = *args.tree_mask;
    tree_mask.data = made.data();
    op::forward own = args;
    own.tree_mask = &tree_mask;
    TreeAttention::forward(own, ctx);
  }
};
FK_OP(tree_attention, WideTree);

}  // namespace
FK_PLUGIN("c12_wide_tree", "0");
