// SPDX-License-Identifier: Apache-2.0
// eagle3_decoder_layer: the passes of decoder.hpp and a gated MLP. The input of attention is twice
// as wide as a hidden state: the norm of a token's embedding, then the norm of its hidden state.
#include "fk/ops/eagle3_decoder_layer.h"
#include "decoder.hpp"

namespace fk::reference {
namespace {

struct Eagle3DecoderLayer : Base<eagle3_decoder_layer> {
  using Base::Base;
  struct Rows {
    DecoderRows decoder;
    double *both, *attended, *mlp, *hidden;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : decoder(s, i, args),
          both(s.take(2 * i.hidden_size)),
          attended(s.take(i.hidden_size)),
          mlp(s.take(i.hidden_size)),
          hidden(s.take(2 * i.intermediate_size)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.input_norm, weights.hidden_norm, weights.post_norm, weights.gate_up,
                weights.down, max.embeds, max.hidden);
    need_decoder(init, weights, max);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, args);
    const Decoder<op::init, op::weights, op::forward> decoder{init, weights, args, rows.decoder};
    const int64_t channels = init.hidden_size;
    double *x = rows.decoder.x, *row = rows.decoder.row;
    for (int64_t t = 0; t < decoder.tokens(); ++t) {
      load(args.embeds, offset(args.embeds, t), channels, rows.both);
      load(fk_as_in(args.hidden), offset(args.hidden, t), channels, rows.both + channels);
      rms_normalize(rows.both, channels, init.eps, weights.input_norm, row);
      rms_normalize(rows.both + channels, channels, init.eps, weights.hidden_norm, row);
      decoder.project(t, rows.both);
    }
    decoder.attend(rows.attended, [&](int64_t t, const double* attended) {
      load(fk_as_in(args.hidden), offset(args.hidden, t), channels, x);
      for (int64_t c = 0; c < channels; ++c) x[c] += attended[c];
      store(args.hidden, offset(args.hidden, t), channels, x);
      rms_normalize(x, channels, init.eps, weights.post_norm, row);
      gated_mlp(weights.gate_up, 0, weights.down, 0, channels, init.intermediate_size, x,
                rows.hidden, rows.mlp);
      store(args.out, offset(args.out, t), channels, rows.mlp);
    });
  }
};
FK_OP(eagle3_decoder_layer, Eagle3DecoderLayer);

}  // namespace
}  // namespace fk::reference
