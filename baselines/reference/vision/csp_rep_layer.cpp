// SPDX-License-Identifier: Apache-2.0
// csp_rep_layer: products over channels around three blocks of two convolutions (RepVgg in
// convnet.hpp), image by image.
#include "fk/ops/csp_rep_layer.h"
#include "convnet.hpp"

namespace fk::reference {
namespace {

struct CspRepLayer : Base<csp_rep_layer> {
  using Base::Base;
  struct Rows {
    PixelMap x, y, other, next, out;
    ConvNorm first, second, third;
    RepVgg block0, block1, block2;
    Rows(Scratch& s, const op::init& i, const op::weights& w, const op::forward& args)
        : x(take_map(s, args.x->shape[1], args.x->shape[2], i.in_channels)),
          y(take_map(s, x.height, x.width, i.middle_channels)),
          other(take_map(s, x.height, x.width, i.middle_channels)),
          next(take_map(s, x.height, x.width, i.middle_channels)),
          out(take_map(s, x.height, x.width, i.out_channels)),
          first(product(s, i, i.in_channels, i.middle_channels, FK_CONV_NORM(w, conv1))),
          second(product(s, i, i.in_channels, i.middle_channels, FK_CONV_NORM(w, conv2))),
          third(product(s, i, i.middle_channels, i.out_channels, FK_CONV_NORM(w, conv3))),
          block0(block(s, i, FK_CONV_NORM(w, wide0), FK_CONV_NORM(w, point0))),
          block1(block(s, i, FK_CONV_NORM(w, wide1), FK_CONV_NORM(w, point1))),
          block2(block(s, i, FK_CONV_NORM(w, wide2), FK_CONV_NORM(w, point2))) {}

   private:
    static ConvNorm product(Scratch& s, const op::init& i, int64_t in, int64_t out,
                            const ConvNormWeights& w) {
      return conv_norm(s, centred(1, 1), 1, in, out, w, i.eps,
                       static_cast<PixelActivation>(i.activation));
    }
    static RepVgg block(Scratch& s, const op::init& i, const ConvNormWeights& wide,
                        const ConvNormWeights& point) {
      return {s, i.middle_channels, wide, point, i.eps, static_cast<PixelActivation>(i.activation)};
    }
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    for (const ConvNormWeights& part :
         {FK_CONV_NORM(w, conv1), FK_CONV_NORM(w, conv2), FK_CONV_NORM(w, conv3),
          FK_CONV_NORM(w, wide0), FK_CONV_NORM(w, point0), FK_CONV_NORM(w, wide1),
          FK_CONV_NORM(w, point1), FK_CONV_NORM(w, wide2), FK_CONV_NORM(w, point2)})
      need_floats(part);
    need_floats(max.x, max.out);
    if (!w.conv3.or_null && init.middle_channels != init.out_channels)
      throw unsupported{"out_channels: without conv3 they are middle_channels"};
    need.scratch = scratch_bytes<Rows>(init, w, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, weights, args);
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      load_map(args.x, b, rows.x);
      rows.first(rows.x, rows.y);
      rows.block0(rows.y, rows.other, rows.next);
      rows.block1(rows.next, rows.other, rows.y);
      rows.block2(rows.y, rows.other, rows.next);
      rows.second(rows.x, rows.other);
      for (int64_t i = 0; i < rows.y.pixels() * init.middle_channels; ++i)
        rows.next.at[i] += rows.other.at[i];
      if (weights.conv3.or_null) rows.third(rows.next, rows.out);
      store_map(weights.conv3.or_null ? rows.out : rows.next, nullptr, args.out, b);
    }
  }
};
FK_OP(csp_rep_layer, CspRepLayer);

}  // namespace
}  // namespace fk::reference
