// SPDX-License-Identifier: Apache-2.0
// moe_decoder_layer: the layer of decoder.hpp with a router and its experts (sparse_mlp.hpp) as its
// second half.
#define FK_MOE_DECODER_LAYER_EDITION 2  // with the fields that the contract marks `since: 2`
#include "fk/ops/moe_decoder_layer.h"
#include "decoder.hpp"
#include "sparse_mlp.hpp"

namespace fk::reference {
namespace {

struct MoeDecoderLayer : Base<moe_decoder_layer> {
  using Base::Base;
  struct Rows {
    DecoderRows decoder;
    double* out;
    SparseMlpRows mlp;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : decoder(s, i, args), out(s.take(i.hidden_size)), mlp(s, i) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.input_norm, weights.post_norm, weights.gate, weights.gate_bias.or_null,
                weights.w13, weights.w2, weights.w13_bias.or_null, weights.w2_bias.or_null,
                max.hidden, max.residual);
    need_decoder(init, weights, max);
    if (init.top_k > init.num_experts) throw unsupported{"top_k is more than num_experts"};
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, args);
    const Decoder<op::init, op::weights, op::forward> decoder{init, weights, args, rows.decoder};
    decoder_layer_tokens(decoder, rows.out, [&](const double* x, double* out) {
      sparse_mlp(init, weights, x, rows.mlp, out);
    });
  }
};
FK_OP(moe_decoder_layer, MoeDecoderLayer);

}  // namespace
}  // namespace fk::reference
