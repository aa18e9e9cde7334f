// SPDX-License-Identifier: Apache-2.0
// universal_inverted_bottleneck: two to four convolutions with their norms (ConvNorm in image.hpp),
// plus x.
#include "fk/ops/universal_inverted_bottleneck.h"
#include "convnet.hpp"

namespace fk::reference {
namespace {

struct InvertedBottleneck : Base<universal_inverted_bottleneck> {
  using Base::Base;
  struct Rows {
    PixelMap x, started, wide, mixed, out;
    ConvNorm start, expand, middle, project;
    Rows(Scratch& s, const op::init& i, const op::weights& w, const op::forward& args)
        : Rows(s, i, w, args.x, args.out, w.middle.or_null ? 1 : i.stride) {}

   private:
    // `first` is the stride before the products over channels.
    Rows(Scratch& s, const op::init& i, const op::weights& w, const fk_in* x_view,
         const fk_out* out_view, int64_t first)
        : x(take_map(s, x_view->shape[1], x_view->shape[2], i.in_channels)),
          started(take_map(s, strided(x.height, first), strided(x.width, first), i.in_channels)),
          wide(take_map(s, started.height, started.width, i.middle_channels)),
          mixed(take_map(s, out_view->shape[1], out_view->shape[2], i.middle_channels)),
          out(take_map(s, out_view->shape[1], out_view->shape[2], i.out_channels)),
          start(conv_norm(s, centred(i.start_kernel_size, first), i.in_channels, i.in_channels,
                          i.in_channels, FK_CONV_NORM(w, start), i.eps, PixelActivation::none)),
          expand(conv_norm(s, centred(1, 1), 1, i.in_channels, i.middle_channels,
                           FK_CONV_NORM(w, expand), i.eps,
                           static_cast<PixelActivation>(i.activation))),
          middle(conv_norm(s, centred(i.middle_kernel_size, i.stride), i.middle_channels,
                           i.middle_channels, i.middle_channels, FK_CONV_NORM(w, middle), i.eps,
                           static_cast<PixelActivation>(i.activation))),
          project(conv_norm(s, centred(1, 1), 1, i.middle_channels, i.out_channels,
                            FK_CONV_NORM(w, project), i.eps, PixelActivation::none)) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    if (init.start_kernel_size % 2 == 0) throw unsupported{"start_kernel_size: even"};
    if (init.middle_kernel_size % 2 == 0) throw unsupported{"middle_kernel_size: even"};
    if (init.stride > 1 && !w.start.or_null && !w.middle.or_null)
      throw unsupported{"stride: without start and middle it is 1"};
    for (const ConvNormWeights& part : {FK_CONV_NORM(w, start), FK_CONV_NORM(w, expand),
                                        FK_CONV_NORM(w, middle), FK_CONV_NORM(w, project)})
      need_floats(part);
    need_floats(max.x, max.out);
    need.scratch = scratch_bytes<Rows>(init, w, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, weights, args);
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      load_map(args.x, b, rows.x);
      if (weights.start.or_null) rows.start(rows.x, rows.started);
      rows.expand(weights.start.or_null ? rows.started : rows.x, rows.wide);
      if (weights.middle.or_null) rows.middle(rows.wide, rows.mixed);
      rows.project(weights.middle.or_null ? rows.mixed : rows.wide, rows.out);
      store_map(rows.out, init.residual ? &rows.x : nullptr, args.out, b);
    }
  }
};
FK_OP(universal_inverted_bottleneck, InvertedBottleneck);

}  // namespace
}  // namespace fk::reference
