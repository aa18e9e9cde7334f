// SPDX-License-Identifier: Apache-2.0
// swinv2_block: attention in windows (window.hpp) and an MLP, each with a norm behind it, image by
// image.
#include "fk/ops/swinv2_block.h"
#include "window.hpp"

namespace fk::reference {
namespace {

struct SwinV2Block : Base<swinv2_block> {
  using Base::Base;
  struct Rows {
    WindowRows window;
    double *row, *x, *part, *norm, *hidden;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : window(s, i, args),
          row(s.take(i.hidden_size)),
          x(s.take(args.x->shape[1] * i.hidden_size)),
          part(s.take(i.hidden_size)),
          norm(s.take(i.hidden_size)),
          hidden(s.take(i.intermediate_size)) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_window(w);
    need_floats(w.attention_norm_weight, w.attention_norm_bias, w.fc1, w.fc1_bias.or_null, w.fc2,
                w.fc2_bias.or_null, w.mlp_norm_weight, w.mlp_norm_bias, max.x, max.mask.or_null,
                max.out);
    if (max.x->shape[1] % init.window_tokens)
      throw unsupported{"window_tokens: does not divide the pixels"};
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, args);
    const int64_t pixels = args.x->shape[1], channels = init.hidden_size;
    const int64_t tokens = init.window_tokens, windows = pixels / tokens;
    window_biases(init, weights, args, rows.window);
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      // rows.x gets the results of tokens in the order of windows; pixels without a whole window
      // have zeros.
      std::fill_n(rows.x, pixels * channels, 0.0);
      for (int64_t i = 0; i < windows; ++i)
        reference::window_attention(
            init, weights, args, b * windows + i, rows.window, rows.row,
            [&](int64_t t, double* x) {
              const int64_t pixel = index<int32_t>(args.to_windows, i * tokens + t);
              load(args.x, offset(args.x, b, pixel), channels, x);
            },
            [&](int64_t t, double* out) {
              std::copy_n(out, channels, rows.x + (i * tokens + t) * channels);
            });
      for (int64_t p = 0; p < pixels; ++p) finish(args, b, p, rows);
    }
  }

 private:
  void finish(const op::forward& args, int64_t b, int64_t p, const Rows& rows) const {
    const int64_t channels = init.hidden_size, width = init.intermediate_size;
    double *y = rows.row, *part = rows.part;
    std::copy_n(rows.x + index<int32_t>(args.to_pixels, p) * channels, channels, y);
    layer_normalize(y, channels, init.eps, weights.attention_norm_weight,
                    weights.attention_norm_bias, rows.norm);
    add_scaled(args.x, offset(args.x, b, p), channels, 1, y);
    matrix_vector(weights.fc1, 0, width, channels, weights.fc1_bias.or_null, y, rows.hidden);
    for (int64_t f = 0; f < width; ++f) rows.hidden[f] = gelu(rows.hidden[f], false);
    matrix_vector(weights.fc2, 0, channels, width, weights.fc2_bias.or_null, rows.hidden, part);
    layer_normalize(part, channels, init.eps, weights.mlp_norm_weight, weights.mlp_norm_bias,
                    rows.norm);
    for (int64_t c = 0; c < channels; ++c) y[c] += part[c];
    store(args.out, offset(args.out, b, p), channels, y);
  }
};
FK_OP(swinv2_block, SwinV2Block);

}  // namespace
}  // namespace fk::reference
