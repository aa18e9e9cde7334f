// SPDX-License-Identifier: Apache-2.0
// l2_norm: each row divided by its length, or by eps if the length is smaller.
#include "fk/ops/l2_norm.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct L2Norm : Base<l2_norm> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.out);
    need.scratch = init.hidden_size * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t channels = init.hidden_size;
    double* x = Scratch(ctx).take(channels);
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      load(args.x, offset(args.x, t), channels, x);
      double squares = 0;
      for (int64_t c = 0; c < channels; ++c) squares += x[c] * x[c];
      const double length = std::max(std::sqrt(squares), init.eps);
      for (int64_t c = 0; c < channels; ++c) x[c] /= length;
      store(args.out, offset(args.out, t), channels, x);
    }
  }
};
FK_OP(l2_norm, L2Norm);

}  // namespace
}  // namespace fk::reference
