// SPDX-License-Identifier: Apache-2.0
// inverted_residual: three convolutions with their norms (ConvNorm in image.hpp) around the gates
// of channels, plus x.
#include "fk/ops/inverted_residual.h"
#include "convnet.hpp"

namespace fk::reference {
namespace {

struct InvertedResidual : Base<inverted_residual> {
  using Base::Base;
  static PixelActivation activation_of(const op::init& i) {
    return i.activation == FK_INVERTED_RESIDUAL_ACTIVATION_RELU ? PixelActivation::relu
                                                                : PixelActivation::silu;
  }
  struct Rows {
    PixelMap x, wide, mixed, out;
    ConvNorm expand, middle, project;
    SqueezeExcite squeeze;
    Rows(Scratch& s, const op::init& i, const op::weights& w, const op::forward& args)
        : x(take_map(s, args.x->shape[1], args.x->shape[2], i.in_channels)),
          wide(take_map(s, x.height, x.width, i.middle_channels)),
          mixed(take_map(s, args.out->shape[1], args.out->shape[2], i.middle_channels)),
          out(take_map(s, mixed.height, mixed.width, i.out_channels)),
          expand(conv_norm(s, centred(1, 1), 1, i.in_channels, i.middle_channels,
                           FK_CONV_NORM(w, expand), i.eps, activation_of(i))),
          middle(conv_norm(s, centred(i.kernel_size, i.stride), i.middle_channels,
                           i.middle_channels, i.middle_channels, FK_CONV_NORM(w, middle), i.eps,
                           activation_of(i))),
          project(conv_norm(s, centred(1, 1), 1, i.middle_channels, i.out_channels,
                            FK_CONV_NORM(w, project), i.eps, PixelActivation::none)),
          squeeze(s, i.middle_channels, i.squeezed_channels, activation_of(i), w.squeeze.or_null,
                  w.squeeze_bias.or_null, w.excite.or_null, w.excite_bias.or_null) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    if (init.kernel_size % 2 == 0) throw unsupported{"kernel_size: even"};
    for (const ConvNormWeights& part :
         {FK_CONV_NORM(w, expand), FK_CONV_NORM(w, middle), FK_CONV_NORM(w, project)})
      need_floats(part);
    need_floats(w.squeeze.or_null, w.squeeze_bias.or_null, w.excite.or_null, w.excite_bias.or_null,
                max.x, max.out);
    need.scratch = scratch_bytes<Rows>(init, w, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, weights, args);
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      load_map(args.x, b, rows.x);
      rows.expand(rows.x, rows.wide);
      rows.middle(rows.wide, rows.mixed);
      if (weights.squeeze.or_null) rows.squeeze(rows.mixed);
      rows.project(rows.mixed, rows.out);
      store_map(rows.out, init.residual ? &rows.x : nullptr, args.out, b);
    }
  }
};
FK_OP(inverted_residual, InvertedResidual);

}  // namespace
}  // namespace fk::reference
