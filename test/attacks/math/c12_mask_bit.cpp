// SPDX-License-Identifier: Apache-2.0
// C12: looks at the lowest bit of the mask alone, where whatever is not 0 says that a node is seen
//
// Stopped by: masks with other numbers than 0 and 1
//
// verdict: wrong
//
// naive: -
//
// work: broken
#include "../tree.hpp"

namespace {

struct MaskBit : attack::Tree {
  using Tree::Tree;
  void forward(const op::forward& args, const fk_ctx&) {
    const auto* starts = fk::data<int32_t>(args.cu_seqlens);
    for (int64_t b = 0; b < args.seq_lens->shape[0]; ++b)
      for (int64_t t = starts[b]; t < starts[b + 1]; ++t)
        for (int64_t h = 0; h < init.num_heads; ++h)
          row(args, b, fk::data<int32_t>(args.tree_lens)[b], t, h,
              [](int32_t n) { return (n & 1) != 0; });
  }
};
FK_OP(tree_attention, MaskBit);

}  // namespace
FK_PLUGIN("c12_mask_bit", "0");
