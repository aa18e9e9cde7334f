// SPDX-License-Identifier: Apache-2.0
// wrong: the mask of the tree is ignored
// hint: input_ignored
// says: tree_mask is ignored
// next: Read each element of tree_mask, and test it against 0.
#include "../attacks/tree.hpp"

namespace {

struct Mask : attack::Tree {
  using Tree::Tree;
  void forward(const op::forward& args, const fk_ctx&) const {
    const auto* starts = fk::data<int32_t>(args.cu_seqlens);
    for (int64_t b = 0; b < args.seq_lens->shape[0]; ++b)
      for (int64_t t = starts[b]; t < starts[b + 1]; ++t)
        for (int64_t h = 0; h < init.num_heads; ++h)
          row(args, b, fk::data<int32_t>(args.tree_lens)[b], t, h, [](int32_t) { return true; });
  }
};
FK_OP(tree_attention, Mask);

}  // namespace
FK_PLUGIN("wrong_mask", "0");
