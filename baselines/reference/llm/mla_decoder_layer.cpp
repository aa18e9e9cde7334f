// SPDX-License-Identifier: Apache-2.0
// mla_decoder_layer: the layer of decoder.hpp with MlaDecoder (mla.hpp) for attention and a gated
// MLP as its second half.
#include "fk/ops/mla_decoder_layer.h"
#include "decoder.hpp"
#include "mla.hpp"

namespace fk::reference {
namespace {

struct MlaDecoderLayer : Base<mla_decoder_layer> {
  using Base::Base;
  struct Rows {
    MlaRows decoder;
    double* out;
    GatedRows mlp;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : decoder(s, i, args),
          out(s.take(i.hidden_size)),
          mlp(s, i.hidden_size, i.intermediate_size) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.input_norm, weights.post_norm, max.hidden, max.residual);
    need_mla(weights, max);
    need_weights(weights.gate_up, weights.down);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, args);
    const MlaDecoder<op::init, op::weights, op::forward> decoder{init, weights, args, rows.decoder};
    decoder_layer_tokens(decoder, rows.out, [&](const double* x, double* out) {
      reference::gated_mlp(matrix_of(weights.gate_up, weights.gate_up_scale_inv),
                           matrix_of(weights.down, weights.down_scale_inv), block_of(init),
                           init.hidden_size, init.intermediate_size, x, rows.mlp, out);
    });
  }
};
FK_OP(mla_decoder_layer, MlaDecoderLayer);

}  // namespace
}  // namespace fk::reference
