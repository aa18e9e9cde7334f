// SPDX-License-Identifier: Apache-2.0
// convnextv2_block: for each position a depthwise convolution and a layer norm, then the MLP over
// the image (response_mlp() in image.hpp), plus x.
#include "fk/ops/convnextv2_block.h"
#include "image.hpp"

namespace fk::reference {
namespace {

struct ConvnextV2Block : Base<convnextv2_block> {
  using Base::Base;
  struct Rows {
    ResponseMlpRows mlp;
    double *pixel, *patch;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : mlp(s, i, args),
          pixel(s.take(i.hidden_size)),
          patch(s.take(i.hidden_size * i.kernel_size * i.kernel_size)) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    if (init.kernel_size % 2 == 0) throw unsupported{"kernel_size: even"};
    need_floats(w.dwconv, w.dwconv_bias.or_null, w.norm_weight, w.norm_bias, w.fc1,
                w.fc1_bias.or_null, w.grn_weight, w.grn_bias, w.fc2, w.fc2_bias.or_null, max.x,
                max.out);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, args);
    const int64_t channels = init.hidden_size, kernel = init.kernel_size, taps = kernel * kernel;
    const int64_t width = args.x->shape[2];
    const Window window{{kernel, kernel},
                        /*stride=*/{1, 1},
                        /*padding=*/{kernel / 2, kernel / 2},
                        /*dilation=*/{1, 1}};
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      response_mlp(
          init, weights, init.approximate == FK_CONVNEXTV2_BLOCK_APPROXIMATE_TANH,
          args.x->shape[1] * width, rows.mlp,
          [&](int64_t p, double* x) {
            gather_patch(args.x, window, b, p / width, p % width, rows.pixel, rows.patch);
            std::fill_n(x, channels, 0.0);
            if (const fk_in* bias = weights.dwconv_bias.or_null) load(bias, 0, channels, x);
            for (int64_t c = 0; c < channels; ++c)
              x[c] += dot_view(weights.dwconv, c * taps, rows.patch + c * taps, taps);
            layer_normalize(x, channels, init.eps, weights.norm_weight, weights.norm_bias,
                            rows.pixel);
          },
          [&](int64_t p, double* out) {
            add_scaled(args.x, offset(args.x, b, p / width, p % width), channels, 1, out);
            store(args.out, offset(args.out, b, p / width, p % width), channels, out);
          });
    }
  }
};
FK_OP(convnextv2_block, ConvnextV2Block);

}  // namespace
}  // namespace fk::reference
