// SPDX-License-Identifier: Apache-2.0
// compact_inverted_block: five or six convolutions with their norms (ConvNorm in image.hpp), plus
// x.
#include "fk/ops/compact_inverted_block.h"
#include "convnet.hpp"

namespace fk::reference {
namespace {

struct CompactInvertedBlock : Base<compact_inverted_block> {
  using Base::Base;
  struct Rows {
    PixelMap x, started, wide, mixed, second, out;
    ConvNorm start, expand, middle, narrow, project, last;
    Rows(Scratch& s, const op::init& i, const op::weights& w, const op::forward& args)
        : x(map_of(s, args, i.channels)),
          started(map_of(s, args, i.channels)),
          wide(map_of(s, args, i.middle_channels)),
          mixed(map_of(s, args, i.middle_channels)),
          second(map_of(s, args, i.middle_channels)),
          out(map_of(s, args, i.channels)),
          start(depthwise(s, i.channels, 3, FK_CONV_NORM(w, start), i, true)),
          expand(conv_norm(s, centred(1, 1), 1, i.channels, i.middle_channels,
                           FK_CONV_NORM(w, expand), i.eps, function(i))),
          middle(depthwise(s, i.middle_channels, i.middle_kernel_size, FK_CONV_NORM(w, middle), i,
                           !w.narrow.or_null)),
          narrow(depthwise(s, i.middle_channels, 3, FK_CONV_NORM(w, narrow), i, false)),
          project(conv_norm(s, centred(1, 1), 1, i.middle_channels, i.channels,
                            FK_CONV_NORM(w, project), i.eps, function(i))),
          last(depthwise(s, i.channels, 3, FK_CONV_NORM(w, last), i, true)) {}

   private:
    static PixelMap map_of(Scratch& s, const op::forward& args, int64_t channels) {
      return take_map(s, args.x->shape[1], args.x->shape[2], channels);
    }
    static ConvNorm depthwise(Scratch& s, int64_t channels, int64_t kernel,
                              const ConvNormWeights& w, const op::init& i, bool active) {
      return conv_norm(s, centred(kernel, 1), channels, channels, channels, w, i.eps,
                       active ? function(i) : PixelActivation::none);
    }
  };
  static PixelActivation function(const op::init& i) {
    return static_cast<PixelActivation>(i.activation);
  }
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    if (init.middle_kernel_size % 2 == 0) throw unsupported{"middle_kernel_size: even"};
    for (const ConvNormWeights& part :
         {FK_CONV_NORM(w, start), FK_CONV_NORM(w, expand), FK_CONV_NORM(w, middle),
          FK_CONV_NORM(w, narrow), FK_CONV_NORM(w, project), FK_CONV_NORM(w, last)})
      need_floats(part);
    need_floats(max.x, max.out);
    need.scratch = scratch_bytes<Rows>(init, w, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, weights, args);
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      load_map(args.x, b, rows.x);
      rows.start(rows.x, rows.started);
      rows.expand(rows.started, rows.wide);
      rows.middle(rows.wide, rows.mixed);
      if (weights.narrow.or_null) {
        rows.narrow(rows.wide, rows.second);
        for (int64_t i = 0; i < rows.mixed.pixels() * rows.mixed.channels; ++i)
          rows.mixed.at[i] = activated(rows.mixed.at[i] + rows.second.at[i], function(init));
      }
      rows.project(rows.mixed, rows.started);
      rows.last(rows.started, rows.out);
      store_map(rows.out, &rows.x, args.out, b);
    }
  }
};
FK_OP(compact_inverted_block, CompactInvertedBlock);

}  // namespace
}  // namespace fk::reference
