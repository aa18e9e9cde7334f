// SPDX-License-Identifier: Apache-2.0
// whisper_decoder_layer: self-attention (decoder.hpp), attention to the encoder's output
// (cross.hpp) and an MLP (whisper_mlp.hpp). A layer norm comes before each of the three.
#include "fk/ops/whisper_decoder_layer.h"
#include "cross.hpp"
#include "decoder.hpp"
#include "whisper_mlp.hpp"

namespace fk::reference {
namespace {

struct WhisperDecoderLayer : Base<whisper_decoder_layer> {
  using Base::Base;
  struct Rows {
    DecoderRows decoder;
    CrossRows cross;
    WhisperMlpRows mlp;
    double *y, *out;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : decoder(s, i, args),
          cross(s, i),
          mlp(s, i),
          y(s.take(i.hidden_size)),
          out(s.take(i.hidden_size)) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_floats(w.cross_norm_weight, w.cross_norm_bias, w.cross_q, w.cross_q_bias.or_null,
                w.cross_o, w.cross_o_bias.or_null, max.x, max.source_k, max.source_v, max.out);
    need_whisper_layer(w);
    need_decoder(init, w, max);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, args);
    const int64_t channels = init.hidden_size;
    const Decoder<op::init, op::weights, op::forward> decoder{init, weights, args, rows.decoder};
    for (int64_t t = 0; t < decoder.tokens(); ++t) {
      load(args.x, offset(args.x, t), channels, rows.decoder.x);
      layer_normalize(rows.decoder.x, channels, init.eps, weights.attn_norm_weight,
                      weights.attn_norm_bias, rows.decoder.row);
      decoder.project(t, rows.decoder.x);
    }
    decoder.attend(rows.out, [&](int64_t t, const double*) { finish(args, t, rows); });
  }

 private:
  // The rest of the layer for token t, after self-attention. Its result is in rows.out.
  void finish(const op::forward& args, int64_t t, const Rows& rows) const {
    const int64_t channels = init.hidden_size;
    const CrossWeights cross{weights.cross_q, weights.cross_q_bias.or_null, weights.cross_o,
                             weights.cross_o_bias.or_null};
    double *y = rows.y, *x = rows.decoder.x;
    load(args.x, offset(args.x, t), channels, y);
    for (int64_t c = 0; c < channels; ++c) x[c] = y[c] += rows.out[c];
    layer_normalize(x, channels, init.eps, weights.cross_norm_weight, weights.cross_norm_bias,
                    rows.mlp.row);
    cross_attend(init, cross, args, request_of(args.cu_seqlens, t), x, rows.cross, rows.out);
    for (int64_t c = 0; c < channels; ++c) y[c] += rows.out[c];
    const bool tanh_form = init.approximate == FK_WHISPER_DECODER_LAYER_APPROXIMATE_TANH;
    whisper_mlp(init, weights, tanh_form, y, rows.mlp, y);
    store(args.out, offset(args.out, t), channels, y);
  }
  // The request that a token belongs to.
  static int64_t request_of(const fk_in* starts, int64_t token) {
    int64_t b = 0;
    while (index<int32_t>(starts, b + 1) <= token) ++b;
    return b;
  }
};
FK_OP(whisper_decoder_layer, WhisperDecoderLayer);

}  // namespace
}  // namespace fk::reference
