// SPDX-License-Identifier: Apache-2.0
// decoder_layer: the layer of decoder.hpp with a gated MLP as its second half.
#define FK_DECODER_LAYER_EDITION 2  // with the fields that the contract marks `since: 2`
#include "fk/ops/decoder_layer.h"
#include "decoder.hpp"

namespace fk::reference {
namespace {

struct DecoderLayer : Base<decoder_layer> {
  using Base::Base;
  struct Rows {
    DecoderRows decoder;
    double *out, *hidden;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : decoder(s, i, args),
          out(s.take(i.hidden_size)),
          hidden(s.take(2 * i.intermediate_size)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.input_norm, weights.post_norm, weights.gate_up, weights.down, max.hidden,
                max.residual);
    need_decoder(init, weights, max);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, args);
    const Decoder<op::init, op::weights, op::forward> decoder{init, weights, args, rows.decoder};
    decoder_layer_tokens(decoder, rows.out, [&](const double* x, double* out) {
      gated_mlp(weights.gate_up, 0, weights.down, 0, init.hidden_size, init.intermediate_size, x,
                rows.hidden, out);
    });
  }
};
FK_OP(decoder_layer, DecoderLayer);

}  // namespace
}  // namespace fk::reference
