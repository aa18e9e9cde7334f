// SPDX-License-Identifier: Apache-2.0
// point_transformer_block: a convolution over neighbours as the position, attention in patches, and
// an MLP.
#include "fk/ops/point_transformer_block.h"

#include "point.hpp"

namespace fk::reference {
namespace {

struct PointTransformerBlock : Base<point_transformer_block> {
  using Base::Base;
  struct Rows : PatchRows {
    double *sum, *in, *out, *row, *hidden;
    Rows(Scratch& s, const op::init& init, const op::forward& args)
        : PatchRows(s, args.x->shape[0], init.patch_size, init.hidden_size),
          sum(s.take(args.x->shape[0] * init.hidden_size)),
          in(s.take(init.hidden_size)),
          out(s.take(init.hidden_size)),
          row(s.take(init.hidden_size)),
          hidden(s.take(init.intermediate_size)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.conv, max.x, max.out);
    need_patch_attention(init);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, args);
    const int64_t channels = init.hidden_size;
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      double* sum = rows.sum + t * channels;
      position(args, t, rows, sum);
      std::copy_n(sum, channels, rows.in);
      layer_normalize(rows.in, channels, init.eps, weights.norm1, weights.norm1_bias, rows.row);
      patch_products(weights, t, channels, rows.in, rows);
    }
    patch_attention(init, args, rows, [&](int64_t t, const double* heads) {
      double* sum = rows.sum + t * channels;
      matrix_vector(weights.proj, 0, channels, channels, weights.proj_bias.or_null, heads,
                    rows.out);
      for (int64_t c = 0; c < channels; ++c) sum[c] += rows.out[c];
      mlp(rows, sum);
      store(args.out, offset(args.out, t), channels, sum);
    });
  }

 private:
  // sum = x[t] + norm(position @ conv(x)[t])
  void position(const op::forward& args, int64_t t, const Rows& rows, double* sum) const {
    const int64_t channels = init.hidden_size;
    if (const fk_in* bias = weights.conv_bias.or_null)
      load(bias, 0, channels, rows.in);
    else
      std::fill_n(rows.in, channels, 0.0);
    add_sparse_conv(weights.conv, args.table, args.x, t, rows.row, rows.in);
    matrix_vector(weights.position, 0, channels, channels, weights.position_bias.or_null, rows.in,
                  rows.out);
    layer_normalize(rows.out, channels, init.eps, weights.position_norm, weights.position_norm_bias,
                    rows.row);
    load(args.x, offset(args.x, t), channels, sum);
    for (int64_t c = 0; c < channels; ++c) sum[c] += rows.out[c];
  }

  // sum += fc2 @ gelu(fc1 @ norm(sum))
  void mlp(const Rows& rows, double* sum) const {
    const int64_t channels = init.hidden_size, wide = init.intermediate_size;
    std::copy_n(sum, channels, rows.in);
    layer_normalize(rows.in, channels, init.eps, weights.norm2, weights.norm2_bias, rows.row);
    matrix_vector(weights.fc1, 0, wide, channels, weights.fc1_bias.or_null, rows.in, rows.hidden);
    for (int64_t f = 0; f < wide; ++f) rows.hidden[f] = gelu(rows.hidden[f], false);
    matrix_vector(weights.fc2, 0, channels, wide, weights.fc2_bias.or_null, rows.hidden, rows.out);
    for (int64_t c = 0; c < channels; ++c) sum[c] += rows.out[c];
  }
};
FK_OP(point_transformer_block, PointTransformerBlock);

}  // namespace
}  // namespace fk::reference
