// SPDX-License-Identifier: Apache-2.0
// snake: x and the square of a sine of it, channel by channel.
#include "fk/ops/snake.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct Snake : Base<snake> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.out);
    need.scratch = 2 * init.size * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    double *x = scratch.take(init.size), *alpha = scratch.take(init.size);
    load(weights.alpha, 0, init.size, alpha);
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      load(args.x, offset(args.x, t), init.size, x);
      for (int64_t c = 0; c < init.size; ++c) {
        const double wave = std::sin(alpha[c] * x[c]);
        x[c] += wave * wave / (alpha[c] + 1e-9);
      }
      store(args.out, offset(args.out, t), init.size, x);
    }
  }
};
FK_OP(snake, Snake);

}  // namespace
}  // namespace fk::reference
