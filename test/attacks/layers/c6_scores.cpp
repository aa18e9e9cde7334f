// SPDX-License-Identifier: Apache-2.0
// C6: cross_attention with a softmax that does not subtract the largest score: above 88 the
// exponential overflows in float32, and the token is lost
//
// Stopped by: a small case has keys with far larger scores
//
// verdict: wrong
//
// naive: -
//
// work: broken
#include <limits>
#include <vector>
#define FK_REFERENCE "baselines/reference/attention/cross_attention.cpp"
#include "../reference.hpp"

namespace {

using namespace fk::reference;

struct Scores : fk::reference::CrossAttention {
  using CrossAttention::CrossAttention;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    CrossAttention::forward(args, ctx);
    const std::vector<double> lost(size_t(init.hidden_size),
                                   std::numeric_limits<double>::quiet_NaN());
    for (int64_t b = 0; b < args.state_slots->shape[0]; ++b)
      for (int64_t t = index<int32_t>(args.cu_seqlens, b);
           t < index<int32_t>(args.cu_seqlens, b + 1); ++t)
        if (highest(args, b, t) > 88)
          store(args.out, offset(args.out, t), init.hidden_size, lost.data());
  }

 private:
  double highest(const op::forward& args, int64_t b, int64_t t) const {
    std::vector<double> x(size_t(init.hidden_size)), q(size_t(init.num_heads * init.head_dim));
    load(args.x, offset(args.x, t), init.hidden_size, x.data());
    matrix_vector(weights.q, 0, int64_t(q.size()), init.hidden_size, weights.q_bias.or_null,
                  x.data(), q.data());
    const int64_t slot = index<int32_t>(args.state_slots, b);
    double top = 0;
    for (int64_t h = 0; h < init.num_heads; ++h)
      for (int64_t s = 0; s < index<int32_t>(args.source_lens, b); ++s)
        top = std::max(top, init.scale * dot_view(args.source_k, offset(args.source_k, slot, s, h),
                                                  q.data() + h * init.head_dim, init.head_dim));
    return top;
  }
};
FK_OP(cross_attention, Scores);

}  // namespace
FK_PLUGIN("c6_scores", "0");
