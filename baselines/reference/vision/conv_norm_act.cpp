// SPDX-License-Identifier: Apache-2.0
// conv_norm_act: one convolution with its norm and activation (ConvNorm in image.hpp), image by
// image.
#include "fk/ops/conv_norm_act.h"
#include "convnet.hpp"

namespace fk::reference {
namespace {

struct ConvNormAct : Base<conv_norm_act> {
  using Base::Base;
  static Window window_of(const op::init& i) {
    return {{i.kernel_size->at[0], i.kernel_size->at[1]},
            {i.stride->at[0], i.stride->at[1]},
            {i.padding->at[0], i.padding->at[1]},
            {i.dilation->at[0], i.dilation->at[1]}};
  }
  static ConvNormWeights weights_of(const op::weights& w) {
    return {w.weight, w.norm_weight, w.norm_bias, w.norm_mean, w.norm_variance};
  }
  struct Rows {
    PixelMap x, out;
    ConvNorm conv;
    Rows(Scratch& s, const op::init& i, const op::weights& w, const op::forward& args)
        : x(take_map(s, args.x->shape[1], args.x->shape[2], i.in_channels)),
          out(take_map(s, args.out->shape[1], args.out->shape[2], i.out_channels)),
          conv(conv_norm(s, window_of(i), i.groups, i.in_channels, i.out_channels, weights_of(w),
                         i.eps, static_cast<PixelActivation>(i.activation))) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_floats(weights_of(w));
    need_floats(max.x, max.out);
    if (init.in_channels % init.groups || init.out_channels % init.groups)
      throw unsupported{"groups: does not divide the channels"};
    need.scratch = scratch_bytes<Rows>(init, w, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, weights, args);
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      load_map(args.x, b, rows.x);
      rows.conv(rows.x, rows.out);
      store_map(rows.out, nullptr, args.out, b);
    }
  }
};
FK_OP(conv_norm_act, ConvNormAct);

}  // namespace
}  // namespace fk::reference
