// SPDX-License-Identifier: Apache-2.0
// moe_sum: the weighted sum of the rows of a token's experts.
#include "fk/ops/moe_sum.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct MoeSum : Base<moe_sum> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.out);
    need.scratch = init.size * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    double* sum = Scratch(ctx).take(init.size);
    const int64_t chosen = args.topk_weights->shape[1];
    for (int64_t t = 0; t < args.out->shape[0]; ++t) {
      std::fill_n(sum, init.size, 0.0);
      for (int64_t k = 0; k < chosen; ++k) {
        const double weight = value(data<float>(args.topk_weights)[t * chosen + k]);
        add_scaled(args.x, offset(args.x, t * chosen + k), init.size, weight, sum);
      }
      store(args.out, offset(args.out, t), init.size, sum);
    }
  }
};
FK_OP(moe_sum, MoeSum);

}  // namespace
}  // namespace fk::reference
