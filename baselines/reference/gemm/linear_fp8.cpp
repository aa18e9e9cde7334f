// SPDX-License-Identifier: Apache-2.0
// linear_fp8: products of f8e4m3, times the scales of the rows of x and weight.
#include "fk/ops/linear_fp8.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct LinearFp8 : Base<linear_fp8> {
  using Base::Base;
  struct Rows {
    double *x, *out;
    Rows(Scratch& s, const op::init& i) : x(s.take(i.in_features)), out(s.take(i.out_features)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.bias.or_null, max.out);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    const float* scales = data<float>(weights.weight_scale);
    for (int64_t m = 0; m < args.x->shape[0]; ++m) {
      const F8e4m3* x = data<F8e4m3>(args.x) + offset(args.x, m);
      const double x_scale = value(data<float>(args.x_scale)[m / init.x_group_rows]);
      for (int64_t k = 0; k < init.in_features; ++k) row.x[k] = x_scale * value(x[k]);
      for (int64_t n = 0; n < init.out_features; ++n)
        row.out[n] = value(scales[n / init.weight_group_rows]) *
                     dot_view(weights.weight, offset(weights.weight, n), row.x, init.in_features);
      if (weights.bias.or_null) add_scaled(weights.bias.or_null, 0, init.out_features, 1, row.out);
      store(args.out, offset(args.out, m), init.out_features, row.out);
    }
  }
};
FK_OP(linear_fp8, LinearFp8);

}  // namespace
}  // namespace fk::reference
