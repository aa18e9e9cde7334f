// SPDX-License-Identifier: Apache-2.0
// bidirectional_decoder_layer: self-attention (bidirectional.hpp) and a gated MLP, each after an
// RMSNorm. No token is written before all have been read.
#include "fk/ops/bidirectional_decoder_layer.h"
#include "bidirectional.hpp"

namespace fk::reference {
namespace {

struct BidirectionalDecoderLayer : Base<bidirectional_decoder_layer> {
  using Base::Base;
  struct Rows {
    BidirectionalRows layer;
    double *out, *hidden;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : layer(s, i, args), out(s.take(i.hidden_size)), hidden(s.take(2 * i.intermediate_size)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.input_norm, weights.post_norm, weights.gate_up, weights.down, max.hidden,
                max.residual);
    need_bidirectional(init, weights);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, args);
    const Bidirectional<op::init, op::weights, op::forward> layer{init, weights, args, rows.layer};
    double *x = rows.layer.x, *row = rows.layer.row;
    const int64_t channels = init.hidden_size;
    // Loads hidden + residual of token t into x.
    const auto sum = [&](int64_t t) {
      load(args.hidden, offset(args.hidden, t), channels, x);
      add_scaled(args.residual, offset(args.residual, t), channels, 1, x);
    };
    for (int64_t t = 0; t < layer.tokens(); ++t) {
      sum(t);
      rms_normalize(x, channels, init.eps, weights.input_norm, row);
      layer.project(t, x);
    }
    layer.attend([&](int64_t t, const double* attended) {
      sum(t);
      for (int64_t c = 0; c < channels; ++c) x[c] += attended[c];
      store(args.residual, offset(args.residual, t), channels, x);
      rms_normalize(x, channels, init.eps, weights.post_norm, row);
      gated_mlp(weights.gate_up, 0, weights.down, 0, channels, init.intermediate_size, x,
                rows.hidden, rows.out);
      store(args.hidden, offset(args.hidden, t), channels, rows.out);
    });
  }
};
FK_OP(bidirectional_decoder_layer, BidirectionalDecoderLayer);

}  // namespace
}  // namespace fk::reference
