// SPDX-License-Identifier: Apache-2.0
// bidirectional_attention: the two passes of bidirectional.hpp over x.
#include "fk/ops/bidirectional_attention.h"
#include "bidirectional.hpp"

namespace fk::reference {
namespace {

struct BidirectionalAttention : Base<bidirectional_attention> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.out);
    need_bidirectional(init, weights);
    need.scratch = scratch_bytes<BidirectionalRows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const BidirectionalRows rows(scratch, init, args);
    const Bidirectional<op::init, op::weights, op::forward> layer{init, weights, args, rows};
    for (int64_t t = 0; t < layer.tokens(); ++t) {
      load(args.x, offset(args.x, t), init.hidden_size, rows.x);
      layer.project(t, rows.x);
    }
    layer.attend([&](int64_t t, const double* attended) {
      store(args.out, offset(args.out, t), init.hidden_size, attended);
    });
  }
};
FK_OP(bidirectional_attention, BidirectionalAttention);

}  // namespace
}  // namespace fk::reference
