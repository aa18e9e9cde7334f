// SPDX-License-Identifier: Apache-2.0
// C12: self_attention that makes positions from the lengths, and reads the field where there is a tree alone
//
// Stopped by: a small case without a tree has positions that do not follow from lengths
//
// verdict: wrong
//
// naive: -
//
// work: broken
#include <vector>
#define FK_REFERENCE "baselines/reference/attention/self_attention.cpp"
#include "../reference.hpp"

namespace {

using Right = fk::reference::SelfAttentionOf<fk::self_attention>;
struct Positions : Right {
  using Right::Right;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    std::vector<int64_t> made;
    const auto *starts = fk::data<int32_t>(args.cu_seqlens), *lengths = fk::data<int32_t>(args.seq_lens);
    for (int64_t b = 0; b < args.seq_lens->shape[0]; ++b)
      for (int32_t t = starts[b]; t < starts[b + 1]; ++t) made.push_back(lengths[b] - starts[b + 1] + t);
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
