// SPDX-License-Identifier: Apache-2.0
// fused_moe that computes places in the experts' weights in 32 bits.
#include <vector>
#define FK_REFERENCE "baselines/reference/moe/fused_moe.cpp"
#include "test/attacks/reference.hpp"

namespace {

struct Offsets : fk::reference::FusedMoe {
  using FusedMoe::FusedMoe;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const auto each = static_cast<uint32_t>(2 * init.intermediate_size * init.hidden_size);
    std::vector<int32_t> experts;
    const int64_t count = args.topk_ids->shape[0] * args.topk_ids->shape[1];
    for (int64_t i = 0; i < count; ++i) {
      const auto expert = static_cast<uint32_t>(fk::data<int32_t>(args.topk_ids)[i]);
      // The expert at which 32 bits of the offset arrive.
      experts.push_back(static_cast<int32_t>(expert * each / each));
    }
    fk_in view = *args.topk_ids;
    view.data = experts.data();
    op::forward own = args;
    own.topk_ids = &view;
    FusedMoe::forward(own, ctx);
  }
};
FK_OP(fused_moe, Offsets);

}  // namespace
FK_PLUGIN("narrow_experts", "0");
