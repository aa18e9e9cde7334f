// SPDX-License-Identifier: Apache-2.0
// mamba_mixer2: the mixer of mixer.hpp over x.
#include "fk/ops/mamba_mixer2.h"
#include "mixer.hpp"

namespace fk::reference {
namespace {

struct MambaMixer2 : Base<mamba_mixer2> {
  using Base::Base;
  struct Rows {
    MixerRows mixer;
    double *x, *out;
    Rows(Scratch& s, const op::init& i)
        : mixer(s, i), x(s.take(i.hidden_size)), out(s.take(i.hidden_size)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.out);
    need_mixer(init, weights, max);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    Rows rows(scratch, init);
    Mixer<op::init, op::weights, op::forward> mixer{
        init, weights, args, rows.mixer, init.activation == FK_MAMBA_MIXER2_ACTIVATION_SILU};
    mixer.run(
        rows.x, rows.out,
        [&](int64_t t, double* x) { load(args.x, offset(args.x, t), init.hidden_size, x); },
        [&](int64_t t, const double* out) {
          store(args.out, offset(args.out, t), init.hidden_size, out);
        });
  }
};
FK_OP(mamba_mixer2, MambaMixer2);

}  // namespace
}  // namespace fk::reference
