// SPDX-License-Identifier: Apache-2.0
// C12: self_attention that takes token t for that of request t if requests have at most one token.
// This is right only if all have one
//
// Stopped by: a small case of that kind has requests without a token
//
// verdict: wrong
//
// naive: -
//
// work: broken
#include <algorithm>
#include <vector>
#define FK_REFERENCE "baselines/reference/attention/self_attention.cpp"
#include "../reference.hpp"

namespace {

using Right = fk::reference::SelfAttentionOf<fk::self_attention>;
struct Idle : Right {
  using Right::Right;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    std::vector<int32_t> made;
    for (int64_t b = 0; b < args.cu_seqlens->shape[0]; ++b)
      made.push_back(int32_t(std::min(b, args.x->shape[0])));
    fk_in starts = *args.cu_seqlens;
    if (args.max_query_len == 1) starts.data = made.data();
    op::forward own = args;
    own.cu_seqlens = &starts;
    Right::forward(own, ctx);
  }
};
FK_OP(self_attention, Idle);

}  // namespace
FK_PLUGIN("c12_idle_requests", "0");
