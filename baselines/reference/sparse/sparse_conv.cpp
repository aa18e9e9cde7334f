// SPDX-License-Identifier: Apache-2.0
// sparse_conv: add_sparse_conv() of point.hpp, output by output.
#include "fk/ops/sparse_conv.h"

#include "point.hpp"

namespace fk::reference {
namespace {

struct SparseConv : Base<sparse_conv> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.weight, weights.bias.or_null, max.x, max.out);
    need.scratch = (init.in_channels + init.out_channels) * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    double *row = scratch.take(init.in_channels), *out = scratch.take(init.out_channels);
    for (int64_t t = 0; t < args.out->shape[0]; ++t) {
      if (const fk_in* bias = weights.bias.or_null)
        load(bias, 0, init.out_channels, out);
      else
        std::fill_n(out, init.out_channels, 0.0);
      add_sparse_conv(weights.weight, args.table, args.x, t, row, out);
      store(args.out, offset(args.out, t), init.out_channels, out);
    }
  }
};
FK_OP(sparse_conv, SparseConv);

}  // namespace
}  // namespace fk::reference
