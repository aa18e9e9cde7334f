// SPDX-License-Identifier: Apache-2.0
// G2: fused_moe_ep with room for half as many more tokens of a rank as an expert has where all have
// as many; those beyond are dropped
//
// size: ci
//
// Stopped by: with drawn rows some experts are busy
//
// naive: -
#define FK_REFERENCE "baselines/reference/moe/fused_moe_ep.cpp"
#include "../sham.hpp"

namespace {

struct Capacity : fk::reference::FusedMoeEp {
  using FusedMoeEp::FusedMoeEp;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t choices = args.x->shape[0] * init.top_k;
    const int64_t room = 3 * choices / init.num_experts / 2 + 8;
    std::vector<float> kept(static_cast<size_t>(choices));
    std::vector<int64_t> taken(static_cast<size_t>(init.num_experts));
    fk::load(args.topk_weights, 0, choices, kept.data());
    for (int64_t i = 0; i < choices; ++i)
      if (++taken[static_cast<size_t>(fk::data<int32_t>(args.topk_ids)[i])] > room)
        kept[static_cast<size_t>(i)] = 0;
    fk_in weights = *args.topk_weights;
    weights.data = kept.data();
    op::forward own = args;
    own.topk_weights = &weights;
    FusedMoeEp::forward(own, ctx);
  }
};
FK_OP(fused_moe_ep, Capacity);

}  // namespace
FK_PLUGIN("g2_capacity", "0");
