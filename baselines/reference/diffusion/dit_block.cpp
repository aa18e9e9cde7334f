// SPDX-License-Identifier: Apache-2.0
// dit_block: attention and then an MLP, each behind a modulated norm and with a gate, image by
// image (dit.hpp).
#include "fk/ops/dit_block.h"
#include "dit.hpp"

namespace fk::reference {
namespace {

struct DitBlock : Base<dit_block> {
  using Base::Base;
  struct Rows {
    double *x, *normed, *hidden, *out, *row, *modulation;
    StreamRows stream;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : x(s.take(args.x->shape[1] * i.hidden_size)),
          normed(s.take(args.x->shape[1] * i.hidden_size)),
          hidden(s.take(i.intermediate_size)),
          out(s.take(i.hidden_size)),
          row(s.take(i.hidden_size)),
          modulation(s.take(6 * i.hidden_size)),
          stream(s, i, args.x->shape[1]) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_image_attention(init);
    need_floats(w.qkv, w.qkv_bias.or_null, w.q_norm.or_null, w.k_norm.or_null, w.o, w.o_bias,
                w.modulation, w.modulation_bias, w.fc1, w.fc1_bias, w.fc2, w.fc2_bias, max.x,
                max.temb, max.mask.or_null, max.out);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, args);
    const int64_t tokens = args.x->shape[1], channels = init.hidden_size;
    const StreamWeights stream = {weights.qkv, weights.qkv_bias.or_null, weights.q_norm.or_null,
                                  weights.k_norm.or_null};
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      load(args.x, offset(args.x, b), tokens * channels, rows.x);
      modulation_of(args, b, channels, 6, weights.modulation, weights.modulation_bias, rows.row,
                    rows.modulation);
      for (int64_t t = 0; t < tokens; ++t)
        norm_modulated(rows.x + t * channels, channels, init.eps, rows.modulation, rows.row,
                       rows.normed + t * channels);
      project_stream(init, args, stream, rows.normed, 0, tokens, rows.stream);
      attend_streams(init, args, b, tokens, rows.stream, [&](int64_t t, const double* mixed) {
        matrix_vector(weights.o, 0, channels, init.num_heads * init.head_dim, weights.o_bias, mixed,
                      rows.out);
        add_gated(2, rows, rows.x + t * channels);
      });
      for (int64_t t = 0; t < tokens; ++t) {
        double* x = rows.x + t * channels;
        mlp(x, rows);
        store(args.out, offset(args.out, b, t), channels, x);
      }
    }
  }

 private:
  // x += the gate of this number * rows.out
  void add_gated(int64_t gate, const Rows& rows, double* x) const {
    for (int64_t c = 0; c < init.hidden_size; ++c)
      x[c] += rows.modulation[gate * init.hidden_size + c] * rows.out[c];
  }
  void mlp(double* x, const Rows& rows) const {
    const int64_t channels = init.hidden_size, width = init.intermediate_size;
    norm_modulated(x, channels, init.eps, rows.modulation + 3 * channels, rows.row, rows.normed);
    matrix_vector(weights.fc1, 0, width, channels, weights.fc1_bias, rows.normed, rows.hidden);
    for (int64_t f = 0; f < width; ++f) rows.hidden[f] = gelu(rows.hidden[f], true);
    matrix_vector(weights.fc2, 0, channels, width, weights.fc2_bias, rows.hidden, rows.out);
    add_gated(5, rows, x);
  }
};
FK_OP(dit_block, DitBlock);

}  // namespace
}  // namespace fk::reference
