// SPDX-License-Identifier: Apache-2.0
// whisper_encoder_layer: self-attention (encoder.hpp) and an MLP (whisper_mlp.hpp), each after a
// layer norm.
#include "fk/ops/whisper_encoder_layer.h"
#include "encoder.hpp"
#include "whisper_mlp.hpp"

namespace fk::reference {
namespace {

struct WhisperEncoderLayer : Base<whisper_encoder_layer> {
  using Base::Base;
  struct Rows {
    EncoderRows attention;
    WhisperMlpRows mlp;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : attention(s, i, args), mlp(s, i) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.out);
    need_whisper_layer(weights);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, args);
    const bool tanh_form = init.approximate == FK_WHISPER_ENCODER_LAYER_APPROXIMATE_TANH;
    double* y = rows.attention.attended;
    attend_encoder(
        init, weights, args, rows.attention,
        [&](double* x) {
          layer_normalize(x, init.hidden_size, init.eps, weights.attn_norm_weight,
                          weights.attn_norm_bias, rows.mlp.row);
        },
        [&](int64_t t, const double*) {
          add_scaled(args.x, offset(args.x, t), init.hidden_size, 1, y);
          whisper_mlp(init, weights, tanh_form, y, rows.mlp, y);
          store(args.out, offset(args.out, t), init.hidden_size, y);
        });
  }
};
FK_OP(whisper_encoder_layer, WhisperEncoderLayer);

}  // namespace
}  // namespace fk::reference
