// SPDX-License-Identifier: Apache-2.0
// decoder_self_attention: see decoder.hpp.
#include "fk/ops/decoder_self_attention.h"
#include "decoder.hpp"

namespace fk::reference {
namespace {

struct DecoderSelfAttention : Base<decoder_self_attention> {
  using Base::Base;
  struct Rows {
    DecoderRows decoder;
    double* out;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : decoder(s, i, args), out(s.take(i.hidden_size)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.o_bias.or_null, max.x, max.out);
    need_decoder(init, weights, max);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, args);
    const Decoder<op::init, op::weights, op::forward> decoder{init, weights, args, rows.decoder};
    for (int64_t t = 0; t < decoder.tokens(); ++t) {
      load(args.x, offset(args.x, t), init.hidden_size, rows.decoder.x);
      decoder.project(t, rows.decoder.x);
    }
    decoder.attend(rows.out, [&](int64_t t, const double* attended) {
      store(args.out, offset(args.out, t), init.hidden_size, attended);
    });
  }
};
FK_OP(decoder_self_attention, DecoderSelfAttention);

}  // namespace
}  // namespace fk::reference
