// SPDX-License-Identifier: Apache-2.0
// C8: attention_varlen that computes eight requests and leaves the others as they are
//
// Stopped by: a range case with more requests than 16 bits count
//
// size: full
//
// verdict: wrong
//
// naive: -
//
// work: broken
#include <algorithm>
#define FK_REFERENCE "baselines/reference/attention/attention_varlen.cpp"
#include "../reference.hpp"

namespace {

struct EightRequests : fk::reference::AttentionVarlen {
  using AttentionVarlen::AttentionVarlen;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t starts = std::min<int64_t>(args.cu_seqlens_q->shape[0], 8 + 1);
    fk_in view = *args.cu_seqlens_q;
    view.shape = &starts;
    op::forward own = args;
    own.cu_seqlens_q = &view;
    AttentionVarlen::forward(own, ctx);
  }
};
FK_OP(attention_varlen, EightRequests);

}  // namespace
FK_PLUGIN("c8_eight_requests", "0");
