// SPDX-License-Identifier: Apache-2.0
// unet_resnet: two group norms with a silu and a convolution each, the embedded time between them,
// and the shortcut, image by image.
#include "fk/ops/unet_resnet.h"
#include "image.hpp"

namespace fk::reference {
namespace {

struct UnetResnet : Base<unet_resnet> {
  using Base::Base;
  struct Rows {
    PixelMap x, normed, h, out;
    GroupAffine norm_1, norm_2;
    ChannelAffine bias;
    double *temb, *time, *patch;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : x(take(s, args, i.in_channels)),
          normed(take(s, args, std::max(i.in_channels, i.out_channels))),
          h(take(s, args, i.out_channels)),
          out(take(s, args, i.out_channels)),
          norm_1(s, i.in_channels, i.groups, i.eps),
          norm_2(s, i.out_channels, i.groups, i.eps),
          bias(s, i.out_channels),
          temb(s.take(i.temb_channels)),
          time(s.take(i.out_channels)),
          patch(s.take(9 * std::max(i.in_channels, i.out_channels))) {}
    static PixelMap take(Scratch& s, const op::forward& args, int64_t channels) {
      const int64_t high = args.x->shape[1], wide = args.x->shape[2];
      return {high, wide, channels, s.take(high * wide * channels)};
    }
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_floats(w.norm1_weight, w.norm1_bias, w.conv1_weight, w.conv1_bias, w.time_weight.or_null,
                w.time_bias.or_null, w.norm2_weight, w.norm2_bias, w.conv2_weight, w.conv2_bias,
                w.residual_weight.or_null, w.residual_bias.or_null, max.x, max.temb.or_null,
                max.out);
    if (init.in_channels % init.groups || init.out_channels % init.groups)
      throw unsupported{"groups: does not divide the channels"};
    if (!w.residual_weight.or_null && init.in_channels != init.out_channels)
      throw unsupported{"residual: absent, but the channels differ"};
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    Rows rows(scratch, init, args);
    rows.norm_1.read(weights.norm1_weight, weights.norm1_bias);
    rows.norm_2.read(weights.norm2_weight, weights.norm2_bias);
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      load(args.x, offset(args.x, b), rows.x.pixels() * init.in_channels, rows.x.at);
      convolve(rows, rows.x, rows.norm_1, weights.conv1_weight, weights.conv1_bias, rows.h);
      if (const fk_in* temb = args.temb.or_null) add_time(rows, temb, b);
      convolve(rows, rows.h, rows.norm_2, weights.conv2_weight, weights.conv2_bias, rows.out);
      for (int64_t p = 0; p < rows.x.pixels(); ++p) add_shortcut(rows, p);
      store(args.out, offset(args.out, b), rows.x.pixels() * init.out_channels, rows.out.at);
    }
  }

 private:
  void convolve(Rows& rows, const PixelMap& x, const GroupAffine& norm, const fk_in* weight,
                const fk_in* bias, const PixelMap& out) const {
    const PixelMap normed{x.height, x.width, x.channels, rows.normed.at};
    std::copy_n(x.at, x.pixels() * x.channels, normed.at);
    norm.apply(normed, PixelActivation::silu);
    std::fill_n(rows.bias.mean, init.out_channels, 0.0);
    std::fill_n(rows.bias.scale, init.out_channels, 1.0);
    load(bias, 0, init.out_channels, rows.bias.bias);
    const ConvNorm conv{centred(3, 1), 1, weight, rows.bias, PixelActivation::none, rows.patch};
    conv(normed, out);
  }
  void add_time(const Rows& rows, const fk_in* temb, int64_t b) const {
    load(temb, offset(temb, b), init.temb_channels, rows.temb);
    for (int64_t i = 0; i < init.temb_channels; ++i) rows.temb[i] = silu(rows.temb[i]);
    matrix_vector(weights.time_weight.or_null, 0, init.out_channels, init.temb_channels,
                  weights.time_bias.or_null, rows.temb, rows.time);
    for (int64_t i = 0; i < rows.h.pixels() * init.out_channels; ++i)
      rows.h.at[i] += rows.time[i % init.out_channels];
  }
  void add_shortcut(const Rows& rows, int64_t p) const {
    const double* x = rows.x.at + p * init.in_channels;
    if (const fk_in* weight = weights.residual_weight.or_null) {
      matrix_vector(weight, 0, init.out_channels, init.in_channels, weights.residual_bias.or_null,
                    x, rows.time);
      x = rows.time;
    }
    double* out = rows.out.at + p * init.out_channels;
    for (int64_t o = 0; o < init.out_channels; ++o) out[o] += x[o];
  }
};
FK_OP(unet_resnet, UnetResnet);

}  // namespace
}  // namespace fk::reference
