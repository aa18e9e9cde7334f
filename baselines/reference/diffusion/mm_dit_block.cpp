// SPDX-License-Identifier: Apache-2.0
// mm_dit_block: joint attention and an MLP, each behind a modulated norm and with a gate, image by
// image, the text's tokens first (dit.hpp).
#include "fk/ops/mm_dit_block.h"
#include "dit.hpp"

namespace fk::reference {
namespace {

struct MmDitBlock : Base<mm_dit_block> {
  using Base::Base;
  // The weights for one stream.
  struct Mlp {
    const fk_in *fc1, *fc1_bias, *fc2, *fc2_bias;
  };
  struct Rows {
    double *x, *normed, *out, *hidden, *row, *modulation, *context_modulation;
    StreamRows stream;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : x(s.take(tokens(args) * i.hidden_size)),
          normed(s.take(tokens(args) * i.hidden_size)),
          out(s.take(i.hidden_size)),
          hidden(s.take(i.intermediate_size)),
          row(s.take(i.hidden_size)),
          modulation(s.take(6 * i.hidden_size)),
          context_modulation(s.take(6 * i.hidden_size)),
          stream(s, i, tokens(args)) {}
    static int64_t tokens(const op::forward& args) {
      return args.context->shape[1] + args.x->shape[1];
    }
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_image_attention(init);
    need_floats(w.qkv, w.qkv_bias, w.q_norm.or_null, w.k_norm.or_null, w.o, w.o_bias, w.modulation,
                w.modulation_bias, w.fc1, w.fc1_bias, w.fc2, w.fc2_bias);
    need_floats(w.context_qkv, w.context_qkv_bias, w.context_q_norm.or_null,
                w.context_k_norm.or_null, w.context_o, w.context_o_bias, w.context_modulation,
                w.context_modulation_bias, w.context_fc1, w.context_fc1_bias, w.context_fc2,
                w.context_fc2_bias);
    need_floats(max.x, max.context, max.temb, max.mask.or_null, max.out, max.context_out);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, args);
    const int64_t text = args.context->shape[1], channels = init.hidden_size,
                  tokens = Rows::tokens(args);
    const auto modulation = [&](int64_t t) {
      return t < text ? rows.context_modulation : rows.modulation;
    };
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      load(args.context, offset(args.context, b), text * channels, rows.x);
      load(args.x, offset(args.x, b), args.x->shape[1] * channels, rows.x + text * channels);
      modulation_of(args, b, channels, 6, weights.modulation, weights.modulation_bias, rows.row,
                    rows.modulation);
      modulation_of(args, b, channels, 6, weights.context_modulation,
                    weights.context_modulation_bias, rows.row, rows.context_modulation);
      for (int64_t t = 0; t < tokens; ++t)
        norm_modulated(rows.x + t * channels, channels, init.eps, modulation(t), rows.row,
                       rows.normed + t * channels);
      joint_attention_of(init, weights, args, b, rows.normed, rows.stream, rows.out,
                         [&](int64_t t, const double* y) {
                           gate(modulation(t) + 2 * channels, y, rows.x + t * channels);
                         });
      for (int64_t t = 0; t < tokens; ++t) {
        double* x = rows.x + t * channels;
        mlp(t < text, modulation(t) + 3 * channels, x, rows);
        if (t < text)
          store(args.context_out, offset(args.context_out, b, t), channels, x);
        else
          store(args.out, offset(args.out, b, t - text), channels, x);
      }
    }
  }

 private:
  void gate(const double* by, const double* y, double* x) const {
    for (int64_t c = 0; c < init.hidden_size; ++c) x[c] += by[c] * y[c];
  }
  // `by`: shift, scale and gate.
  void mlp(bool of_text, const double* by, double* x, const Rows& rows) const {
    const int64_t channels = init.hidden_size, width = init.intermediate_size;
    const Mlp w = of_text ? Mlp{weights.context_fc1, weights.context_fc1_bias, weights.context_fc2,
                                weights.context_fc2_bias}
                          : Mlp{weights.fc1, weights.fc1_bias, weights.fc2, weights.fc2_bias};
    norm_modulated(x, channels, init.eps, by, rows.row, rows.normed);
    matrix_vector(w.fc1, 0, width, channels, w.fc1_bias, rows.normed, rows.hidden);
    for (int64_t f = 0; f < width; ++f) rows.hidden[f] = gelu(rows.hidden[f], true);
    matrix_vector(w.fc2, 0, channels, width, w.fc2_bias, rows.hidden, rows.out);
    gate(by + 2 * channels, rows.out, x);
  }
};
FK_OP(mm_dit_block, MmDitBlock);

}  // namespace
}  // namespace fk::reference
