// SPDX-License-Identifier: Apache-2.0
// C12: takes the query tokens for the whole tree, whatever tree_lens says. This is right in the
// step that verifies, but not when a draft adds another level
//
// Stopped by: trees in which only the last nodes have queries
//
// verdict: wrong
//
// naive: -
//
// work: broken
#include "../tree.hpp"

namespace {

struct WholeTree : attack::Tree {
  using Tree::Tree;
  void forward(const op::forward& args, const fk_ctx&) {
    const auto* starts = fk::data<int32_t>(args.cu_seqlens);
    for (int64_t b = 0; b < args.seq_lens->shape[0]; ++b)
      for (int64_t t = starts[b]; t < starts[b + 1]; ++t)
        for (int64_t h = 0; h < init.num_heads; ++h)
          row(args, b, starts[b + 1] - starts[b], t, h, [](int32_t n) { return n != 0; });
  }
};
FK_OP(tree_attention, WholeTree);

}  // namespace
FK_PLUGIN("c12_tree", "0");
