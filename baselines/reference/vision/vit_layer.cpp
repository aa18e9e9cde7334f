// SPDX-License-Identifier: Apache-2.0
// vit_layer: attention (image_attention() in vit.hpp) and an MLP, each behind a norm and with a
// scale of its channels, image by image.
#include "fk/ops/vit_layer.h"
#include "vit.hpp"

namespace fk::reference {
namespace {

struct VitLayer : Base<vit_layer> {
  using Base::Base;
  struct Rows {
    ImageAttentionRows attention;
    double *x, *normed, *row, *hidden, *scale;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : attention(s, i, args.x->shape[1]),
          x(s.take(args.x->shape[1] * i.hidden_size)),
          normed(s.take(args.x->shape[1] * i.hidden_size)),
          row(s.take(i.hidden_size)),
          hidden(s.take(2 * i.intermediate_size)),
          scale(s.take(i.hidden_size)) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_image_attention(init);
    need_floats(w.attention_norm_weight, w.attention_norm_bias, w.qkv, w.qkv_bias.or_null, w.o,
                w.o_bias.or_null, w.attention_scale.or_null, w.mlp_norm_weight, w.mlp_norm_bias,
                w.fc1, w.fc1_bias.or_null, w.fc2, w.fc2_bias.or_null, w.mlp_scale.or_null, max.x,
                max.mask.or_null, max.out);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, args);
    const int64_t tokens = args.x->shape[1], channels = init.hidden_size;
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      for (int64_t t = 0; t < tokens; ++t) {
        double *x = rows.x + t * channels, *normed = rows.normed + t * channels;
        load(args.x, offset(args.x, b, t), channels, x);
        std::copy_n(x, channels, normed);
        layer_normalize(normed, channels, init.eps, weights.attention_norm_weight,
                        weights.attention_norm_bias, rows.row);
      }
      image_attention(init, weights, args, b, rows.normed, rows.attention, rows.row,
                      [&](int64_t t, double* y) {
                        add(y, weights.attention_scale.or_null, rows, rows.x + t * channels);
                      });
      for (int64_t t = 0; t < tokens; ++t) {
        mlp(rows.x + t * channels, rows);
        store(args.out, offset(args.out, b, t), channels, rows.x + t * channels);
      }
    }
  }

 private:
  // x += scale * y
  void add(const double* y, const fk_in* scale_or_null, const Rows& rows, double* x) const {
    std::fill_n(rows.scale, init.hidden_size, 1.0);
    if (scale_or_null) load(scale_or_null, 0, init.hidden_size, rows.scale);
    for (int64_t c = 0; c < init.hidden_size; ++c) x[c] += rows.scale[c] * y[c];
  }
  double activated(double x) const {
    if (init.approximate == FK_VIT_LAYER_APPROXIMATE_QUICK) return x / (1 + std::exp(-1.702 * x));
    return gelu(x, init.approximate == FK_VIT_LAYER_APPROXIMATE_TANH);
  }
  void mlp(double* x, const Rows& rows) const {
    const int64_t channels = init.hidden_size, width = init.intermediate_size;
    double* normed = rows.normed;
    std::copy_n(x, channels, normed);
    layer_normalize(normed, channels, init.eps, weights.mlp_norm_weight, weights.mlp_norm_bias,
                    rows.row);
    matrix_vector(weights.fc1, 0, init.gated ? 2 * width : width, channels,
                  weights.fc1_bias.or_null, normed, rows.hidden);
    if (init.gated)
      silu_halves(rows.hidden, width);
    else
      for (int64_t f = 0; f < width; ++f)
        rows.hidden[f] = activated(rows.hidden[f]);
    matrix_vector(weights.fc2, 0, channels, width, weights.fc2_bias.or_null, rows.hidden, rows.row);
    add(rows.row, weights.mlp_scale.or_null, rows, x);
  }
};
FK_OP(vit_layer, VitLayer);

}  // namespace
}  // namespace fk::reference
