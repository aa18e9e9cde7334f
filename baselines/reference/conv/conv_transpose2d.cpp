// SPDX-License-Identifier: Apache-2.0
// conv_transpose2d: each pixel of x adds its products with the taps to pixels of the result.
#include "fk/ops/conv_transpose2d.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct ConvTranspose2d : Base<conv_transpose2d> {
  using Base::Base;
  struct Rows {
    double *x, *weight, *image;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : x(s.take(i.in_channels)),
          weight(s.take(i.out_channels / i.groups * i.kernel_size->at[0] * i.kernel_size->at[1])),
          image(s.take(args.out->shape[1] * args.out->shape[2] * i.out_channels)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.weight, weights.bias.or_null, max.x, max.out);
    if (init.in_channels % init.groups || init.out_channels % init.groups)
      throw unsupported{"groups: does not divide the channels"};
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, args);
    const int64_t high = args.out->shape[1], wide = args.out->shape[2];
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      for (int64_t p = 0; p < high * wide; ++p) {
        double* to = rows.image + p * init.out_channels;
        std::fill_n(to, init.out_channels, 0.0);
        if (const fk_in* bias = weights.bias.or_null) load(bias, 0, init.out_channels, to);
      }
      for (int64_t y = 0; y < args.x->shape[1]; ++y)
        for (int64_t x = 0; x < args.x->shape[2]; ++x) {
          load(args.x, offset(args.x, b, y, x), init.in_channels, rows.x);
          spread(rows, y, x, high, wide);
        }
      store(args.out, offset(args.out, b), high * wide * init.out_channels, rows.image);
    }
  }

 private:
  // Adds pixel (y, x), which is rows.x, to the image.
  void spread(const Rows& rows, int64_t y, int64_t x, int64_t high, int64_t wide) const {
    const int64_t outputs = init.out_channels / init.groups, kw = init.kernel_size->at[1];
    const int64_t taps = init.kernel_size->at[0] * kw, inputs = init.in_channels / init.groups;
    for (int64_t c = 0; c < init.in_channels; ++c) {
      load(weights.weight, c * outputs * taps, outputs * taps, rows.weight);
      for (int64_t tap = 0; tap < taps; ++tap) {
        const int64_t oy =
            y * init.stride->at[0] - init.padding->at[0] + tap / kw * init.dilation->at[0];
        const int64_t ox =
            x * init.stride->at[1] - init.padding->at[1] + tap % kw * init.dilation->at[1];
        if (oy < 0 || oy >= high || ox < 0 || ox >= wide) continue;
        double* to = rows.image + (oy * wide + ox) * init.out_channels + c / inputs * outputs;
        for (int64_t o = 0; o < outputs; ++o) to[o] += rows.x[c] * rows.weight[o * taps + tap];
      }
    }
  }
};
FK_OP(conv_transpose2d, ConvTranspose2d);

}  // namespace
}  // namespace fk::reference
