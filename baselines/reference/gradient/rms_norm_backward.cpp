// SPDX-License-Identifier: Apache-2.0
// rms_norm_backward: the gradient through the scale of a row, and through the row itself.
#include "fk/ops/rms_norm_backward.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct RmsNormBackward : Base<rms_norm_backward> {
  using Base::Base;
  struct Rows {
    double *x, *grad, *weight;
    Rows(Scratch& s, const op::init& i)
        : x(s.take(i.hidden_size)), grad(s.take(i.hidden_size)), weight(s.take(i.hidden_size)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.weight.or_null, max.x, max.grad, max.out);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    const int64_t channels = init.hidden_size;
    const auto width = static_cast<double>(channels);
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      load(args.x, offset(args.x, t), channels, row.x);
      load(args.grad, offset(args.grad, t), channels, row.grad);
      multiply(row.grad, channels, weights.weight.or_null, row.weight);
      double squares = 0, along = 0;
      for (int64_t c = 0; c < channels; ++c) {
        squares += row.x[c] * row.x[c];
        along += row.grad[c] * row.x[c];
      }
      const double scale = 1 / std::sqrt(squares / width + init.eps);
      const double share = scale * scale * along / width;
      for (int64_t c = 0; c < channels; ++c) row.grad[c] = scale * (row.grad[c] - row.x[c] * share);
      store(args.out, offset(args.out, t), channels, row.grad);
    }
  }
};
FK_OP(rms_norm_backward, RmsNormBackward);

}  // namespace
}  // namespace fk::reference
