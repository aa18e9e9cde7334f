// SPDX-License-Identifier: Apache-2.0
// A convolution along a line with a group norm and a mish behind it, in doubles. A line is an image
// with one row.
#pragma once
#include "image.hpp"

namespace fk::reference {

struct LineBlock {
  const fk_in *weight, *bias;  // [O, C, taps], [O]
  int64_t taps;
  GroupAffine affine;
  double* patch;

  // `weight` and `bias` may be null where only memory is counted.
  LineBlock(Scratch& s, int64_t in, int64_t out, int64_t kernel, int64_t groups, double eps)
      : weight(nullptr),
        bias(nullptr),
        taps(kernel),
        affine(s, out, groups, eps),
        patch(s.take(in * kernel)) {}
  void read(const fk_in* w, const fk_in* b, const fk_in* norm_weight, const fk_in* norm_bias) {
    weight = w;
    bias = b;
    affine.read(norm_weight, norm_bias);
  }
  // Lines x [width, C] and out [width, O].
  void operator()(const PixelMap& x, const PixelMap& out) const {
    for (int64_t p = 0; p < x.width; ++p) {
      for (int64_t tap = 0; tap < taps; ++tap) {
        const int64_t from = p - taps / 2 + tap;
        const bool inside = from >= 0 && from < x.width;
        for (int64_t c = 0; c < x.channels; ++c)
          patch[c * taps + tap] = inside ? x.at[from * x.channels + c] : 0;
      }
      matrix_vector(weight, 0, out.channels, x.channels * taps, bias, patch,
                    out.at + p * out.channels);
    }
    affine.apply(out, PixelActivation::mish);
  }
};
inline PixelMap take_line(Scratch& s, int64_t width, int64_t channels) {
  return {1, width, channels, s.take(width * channels)};
}
// LineBlock takes odd kernels, and groups that divide the channels of the result.
inline void need_line(int64_t kernel, int64_t channels, int64_t groups) {
  if (kernel % 2 == 0) throw unsupported{"kernel_size: even"};
  if (channels % groups) throw unsupported{"n_groups: does not divide the channels"};
}

}  // namespace fk::reference
