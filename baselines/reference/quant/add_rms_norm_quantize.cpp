// SPDX-License-Identifier: Apache-2.0
// add_rms_norm_quantize: an RMSNorm of the unrounded sum, as codes.
#include "fk/ops/add_rms_norm_quantize.h"
#include "quantize.hpp"

namespace fk::reference {
namespace {

struct AddRmsNormQuantize : Base<add_rms_norm_quantize> {
  using Base::Base;
  struct Rows {
    double *normed, *weight;  // normed [T, C]
    QuantizeRows quantize;
    Rows(Scratch& s, const Groups& g, int64_t rows)
        : normed(s.take(rows * g.columns)), weight(s.take(g.columns)), quantize(s, g) {}
  };
  static Groups groups(const op::init& i) {
    return {i.hidden_size, i.group_rows, i.group_columns, 448, 1e-10, i.power_of_two != 0};
  }
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.weight, max.x, max.residual.or_null);
    need_codes(max.out);
    need.scratch = scratch_bytes<Rows>(groups(init), max.x->shape[0]);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const int64_t channels = init.hidden_size, count = args.x->shape[0];
    const Rows rows(scratch, groups(init), count);
    const fk_inout* residual = args.residual.or_null;
    for (int64_t t = 0; t < count; ++t) {
      double* row = rows.normed + t * channels;
      load(args.x, offset(args.x, t), channels, row);
      if (residual) {
        add_scaled(residual, offset(residual, t), channels, 1, row);
        store(residual, offset(residual, t), channels, row);
      }
      rms_normalize(row, channels, init.eps, weights.weight, rows.weight);
    }
    quantize(
        groups(init), count, args.scale, rows.quantize, args.out, args.scale_out,
        [&](int64_t t, double* row) { std::copy_n(rows.normed + t * channels, channels, row); });
  }
};
FK_OP(add_rms_norm_quantize, AddRmsNormQuantize);

}  // namespace
}  // namespace fk::reference
