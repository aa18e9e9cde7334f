// SPDX-License-Identifier: Apache-2.0
// rms_norm_gated: gate and RMSNorm of each row (gated_rms_normalize() in recurrence.hpp), without
// rounding between them.
#define FK_RMS_NORM_GATED_EDITION 2
#include "fk/ops/rms_norm_gated.h"
#include "recurrence.hpp"

namespace fk::reference {
namespace {

struct RmsNormGated : Base<rms_norm_gated> {
  using Base::Base;
  struct Rows {
    double *x, *z, *row;
    Rows(Scratch& s, const op::init& i)
        : x(s.take(i.hidden_size)), z(s.take(i.hidden_size)), row(s.take(i.hidden_size)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.weight, max.x, max.z, max.out);
    if (init.hidden_size % init.group_size)
      throw unsupported{"group_size does not divide hidden_size"};
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init);
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      load(args.x, offset(args.x, t), init.hidden_size, rows.x);
      load(args.z, offset(args.z, t), init.hidden_size, rows.z);
      gated_rms_normalize(rows.x, rows.z, init.hidden_size, init.group_size, init.eps,
                          init.norm_before_gate != 0, weights.weight, rows.row,
                          init.activation == FK_RMS_NORM_GATED_ACTIVATION_SIGMOID);
      store(args.out, offset(args.out, t), init.hidden_size, rows.x);
    }
  }
};
FK_OP(rms_norm_gated, RmsNormGated);

}  // namespace
}  // namespace fk::reference
