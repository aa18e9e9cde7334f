// SPDX-License-Identifier: Apache-2.0
// single_dit_block: attention and an MLP side by side behind one modulated norm, and one product of
// both, image by image (dit.hpp).
#include "fk/ops/single_dit_block.h"
#include "dit.hpp"

namespace fk::reference {
namespace {

struct SingleDitBlock : Base<single_dit_block> {
  using Base::Base;
  struct Rows {
    double *x, *normed, *both, *out, *row, *modulation;
    StreamRows stream;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : x(s.take(args.x->shape[1] * i.hidden_size)),
          normed(s.take(args.x->shape[1] * i.hidden_size)),
          both(s.take(i.num_heads * i.head_dim + i.intermediate_size)),
          out(s.take(i.hidden_size)),
          row(s.take(i.hidden_size)),
          modulation(s.take(3 * i.hidden_size)),
          stream(s, i, args.x->shape[1]) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_image_attention(init);
    need_floats(w.qkv, w.qkv_bias, w.q_norm.or_null, w.k_norm.or_null, w.modulation,
                w.modulation_bias, w.fc1, w.fc1_bias, w.o, w.o_bias, max.x, max.temb,
                max.mask.or_null, max.out);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, args);
    const int64_t tokens = args.x->shape[1], channels = init.hidden_size,
                  all = init.num_heads * init.head_dim, width = init.intermediate_size;
    const StreamWeights stream = {weights.qkv, weights.qkv_bias, weights.q_norm.or_null,
                                  weights.k_norm.or_null};
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      load(args.x, offset(args.x, b), tokens * channels, rows.x);
      modulation_of(args, b, channels, 3, weights.modulation, weights.modulation_bias, rows.row,
                    rows.modulation);
      for (int64_t t = 0; t < tokens; ++t)
        norm_modulated(rows.x + t * channels, channels, init.eps, rows.modulation, rows.row,
                       rows.normed + t * channels);
      project_stream(init, args, stream, rows.normed, 0, tokens, rows.stream);
      attend_streams(init, args, b, tokens, rows.stream, [&](int64_t t, const double* mixed) {
        std::copy_n(mixed, all, rows.both);
        double* hidden = rows.both + all;
        matrix_vector(weights.fc1, 0, width, channels, weights.fc1_bias, rows.normed + t * channels,
                      hidden);
        for (int64_t f = 0; f < width; ++f) hidden[f] = gelu(hidden[f], true);
        matrix_vector(weights.o, 0, channels, all + width, weights.o_bias, rows.both, rows.out);
        double* x = rows.x + t * channels;
        for (int64_t c = 0; c < channels; ++c)
          x[c] += rows.modulation[2 * channels + c] * rows.out[c];
        store(args.out, offset(args.out, b, t), channels, x);
      });
    }
  }
};
FK_OP(single_dit_block, SingleDitBlock);

}  // namespace
}  // namespace fk::reference
