// SPDX-License-Identifier: Apache-2.0
// film_residual_block: two LineBlocks, a factor and a summand from the condition between them, and
// the residual, line by line.
#include "fk/ops/film_residual_block.h"
#include "line_block.hpp"

namespace fk::reference {
namespace {

struct FilmResidualBlock : Base<film_residual_block> {
  using Base::Base;
  struct Rows {
    PixelMap x, first, out;
    LineBlock block_0, block_1;
    double *cond, *film, *residual;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : x(take_line(s, args.x->shape[1], i.in_channels)),
          first(take_line(s, args.x->shape[1], i.out_channels)),
          out(take_line(s, args.x->shape[1], i.out_channels)),
          block_0(s, i.in_channels, i.out_channels, i.kernel_size, i.n_groups, i.eps),
          block_1(s, i.out_channels, i.out_channels, i.kernel_size, i.n_groups, i.eps),
          cond(s.take(i.cond_dim)),
          film(s.take(2 * i.out_channels)),
          residual(s.take(i.out_channels)) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_floats(w.weight_0, w.bias_0, w.norm_weight_0, w.norm_bias_0, w.weight_1, w.bias_1,
                w.norm_weight_1, w.norm_bias_1, w.cond_weight, w.cond_bias,
                w.residual_weight.or_null, w.residual_bias.or_null, max.x, max.cond, max.out);
    need_line(init.kernel_size, init.out_channels, init.n_groups);
    if (!w.residual_weight.or_null && init.in_channels != init.out_channels)
      throw unsupported{"residual: absent, but the channels differ"};
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    Rows rows(scratch, init, args);
    const op::weights& w = weights;
    rows.block_0.read(w.weight_0, w.bias_0, w.norm_weight_0, w.norm_bias_0);
    rows.block_1.read(w.weight_1, w.bias_1, w.norm_weight_1, w.norm_bias_1);
    const int64_t width = rows.x.width, channels = init.out_channels;
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      load(args.x, offset(args.x, b), width * init.in_channels, rows.x.at);
      load(args.cond, offset(args.cond, b), init.cond_dim, rows.cond);
      for (int64_t i = 0; i < init.cond_dim; ++i) rows.cond[i] = mish(rows.cond[i]);
      matrix_vector(w.cond_weight, 0, 2 * channels, init.cond_dim, w.cond_bias, rows.cond,
                    rows.film);
      rows.block_0(rows.x, rows.first);
      for (int64_t i = 0; i < width * channels; ++i)
        rows.first.at[i] =
            rows.first.at[i] * rows.film[i % channels] + rows.film[channels + i % channels];
      rows.block_1(rows.first, rows.out);
      for (int64_t p = 0; p < width; ++p) add_residual(rows, p);
      store(args.out, offset(args.out, b), width * channels, rows.out.at);
    }
  }

 private:
  void add_residual(const Rows& rows, int64_t p) const {
    const double* x = rows.x.at + p * init.in_channels;
    if (const fk_in* weight = weights.residual_weight.or_null) {
      matrix_vector(weight, 0, init.out_channels, init.in_channels, weights.residual_bias.or_null,
                    x, rows.residual);
      x = rows.residual;
    }
    double* out = rows.out.at + p * init.out_channels;
    for (int64_t o = 0; o < init.out_channels; ++o) out[o] += x[o];
  }
};
FK_OP(film_residual_block, FilmResidualBlock);

}  // namespace
}  // namespace fk::reference
