// SPDX-License-Identifier: Apache-2.0
// mamba_block: an RMSNorm of the unrounded sum of hidden and residual, then the mixer of
// selective.hpp.
#include "fk/ops/mamba_block.h"
#include "selective.hpp"

namespace fk::reference {
namespace {

struct MambaBlock : Base<mamba_block> {
  using Base::Base;
  struct Rows {
    SelectiveMixerRows mixer;
    double *x, *out;
    Rows(Scratch& s, const op::init& i)
        : mixer(s, i), x(s.take(i.hidden_size)), out(s.take(i.hidden_size)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.input_norm, max.hidden, max.residual);
    need_selective_mixer(weights, max);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    Rows rows(scratch, init);
    const int64_t channels = init.hidden_size;
    SelectiveMixer<op::init, op::weights, op::forward> mixer{
        init, weights, args, rows.mixer, init.activation == FK_MAMBA_BLOCK_ACTIVATION_SILU};
    mixer.run(
        rows.x, rows.out,
        [&](int64_t t, double* x) {
          load(args.hidden, offset(args.hidden, t), channels, x);
          add_scaled(args.residual, offset(args.residual, t), channels, 1, x);
          store(args.residual, offset(args.residual, t), channels, x);
          rms_normalize(x, channels, init.eps, weights.input_norm, rows.mixer.row);
        },
        [&](int64_t t, const double* out) {
          store(args.hidden, offset(args.hidden, t), channels, out);
        });
  }
};
FK_OP(mamba_block, MambaBlock);

}  // namespace
}  // namespace fk::reference
