// SPDX-License-Identifier: Apache-2.0
// mla_self_attention: the two passes of MlaDecoder (mla.hpp) over x.
#include "fk/ops/mla_self_attention.h"
#include "mla.hpp"

namespace fk::reference {
namespace {

struct MlaSelfAttention : Base<mla_self_attention> {
  using Base::Base;
  struct Rows {
    MlaRows decoder;
    double* out;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : decoder(s, i, args), out(s.take(i.hidden_size)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.out);
    need_mla(weights, max);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, args);
    const MlaDecoder<op::init, op::weights, op::forward> decoder{init, weights, args, rows.decoder};
    for (int64_t t = 0; t < decoder.tokens(); ++t) {
      load(args.x, offset(args.x, t), init.hidden_size, rows.decoder.x);
      decoder.project(t, rows.decoder.x);
    }
    decoder.attend(rows.out, [&](int64_t t, const double* attended) {
      store(args.out, offset(args.out, t), init.hidden_size, attended);
    });
  }
};
FK_OP(mla_self_attention, MlaSelfAttention);

}  // namespace
}  // namespace fk::reference
