// SPDX-License-Identifier: Apache-2.0
// mamba_mixer: the mixer of selective.hpp over x.
#include "fk/ops/mamba_mixer.h"
#include "selective.hpp"

namespace fk::reference {
namespace {

struct MambaMixer : Base<mamba_mixer> {
  using Base::Base;
  struct Rows {
    SelectiveMixerRows mixer;
    double *x, *out;
    Rows(Scratch& s, const op::init& i)
        : mixer(s, i), x(s.take(i.hidden_size)), out(s.take(i.hidden_size)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.out);
    need_selective_mixer(weights, max);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    Rows rows(scratch, init);
    SelectiveMixer<op::init, op::weights, op::forward> mixer{
        init, weights, args, rows.mixer, init.activation == FK_MAMBA_MIXER_ACTIVATION_SILU};
    mixer.run(
        rows.x, rows.out,
        [&](int64_t t, double* x) { load(args.x, offset(args.x, t), init.hidden_size, x); },
        [&](int64_t t, const double* out) {
          store(args.out, offset(args.out, t), init.hidden_size, out);
        });
  }
};
FK_OP(mamba_mixer, MambaMixer);

}  // namespace
}  // namespace fk::reference
