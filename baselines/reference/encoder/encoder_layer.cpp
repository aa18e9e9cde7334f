// SPDX-License-Identifier: Apache-2.0
// encoder_layer: self-attention (encoder.hpp) and an MLP. A layer norm comes after each sum with
// the residual, as in BERT.
#define FK_ENCODER_LAYER_EDITION 2  // with the field that the contract marks `since: 2`
#include "fk/ops/encoder_layer.h"
#include "encoder.hpp"

namespace fk::reference {
namespace {

struct EncoderLayer : Base<encoder_layer> {
  using Base::Base;
  struct Rows {
    EncoderRows attention;
    double *hidden, *out, *row;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : attention(s, i, args),
          hidden(s.take(i.intermediate_size)),
          out(s.take(i.hidden_size)),
          row(s.take(i.hidden_size)) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_floats(w.qkv, w.qkv_bias.or_null, w.o, w.o_bias.or_null, w.attn_norm_weight,
                w.attn_norm_bias, w.fc1, w.fc1_bias.or_null, w.fc2, w.fc2_bias.or_null,
                w.mlp_norm_weight, w.mlp_norm_bias, max.x, max.out);
    need_odd_rows(w.distance_bias.or_null);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, args);
    const bool tanh_form = init.approximate == FK_ENCODER_LAYER_APPROXIMATE_TANH;
    const int64_t channels = init.hidden_size, width = init.intermediate_size;
    double* x = rows.attention.attended;
    attend_encoder(
        init, weights, args, rows.attention, [](double*) {},
        [&](int64_t t, const double*) {
          add_scaled(args.x, offset(args.x, t), channels, 1, x);
          layer_normalize(x, channels, init.eps, weights.attn_norm_weight, weights.attn_norm_bias,
                          rows.row);
          matrix_vector(weights.fc1, 0, width, channels, weights.fc1_bias.or_null, x, rows.hidden);
          for (int64_t f = 0; f < width; ++f) rows.hidden[f] = gelu(rows.hidden[f], tanh_form);
          matrix_vector(weights.fc2, 0, channels, width, weights.fc2_bias.or_null, rows.hidden,
                        rows.out);
          for (int64_t c = 0; c < channels; ++c) rows.out[c] += x[c];
          layer_normalize(rows.out, channels, init.eps, weights.mlp_norm_weight,
                          weights.mlp_norm_bias, rows.row);
          store(args.out, offset(args.out, t), channels, rows.out);
        });
  }
};
FK_OP(encoder_layer, EncoderLayer);

}  // namespace
}  // namespace fk::reference
