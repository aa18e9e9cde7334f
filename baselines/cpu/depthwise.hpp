// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution, channels last. A block of channels of a band of rows is copied to float32
// with zeros around it, small enough for the second-level cache; then a few output pixels of a row
// stay in registers while the window passes by, without a look at the borders.
#pragma once
#include "level.hpp"

namespace fk::cpu {

inline constexpr int64_t kDepthwiseBlock = 16;  // channels

// Pairs are rows, columns.
struct Depthwise {
  const void *x, *bias;  // [B, in, channels]; bias may be null
  void* out;             // [B, out_size, channels]
  const float* weight;   // [taps, weight_stride], zeros behind the channels
  int64_t channels, weight_stride;
  int64_t in[2], out_size[2], kernel[2], stride[2], padding[2], dilation[2];
  int64_t columns;     // output pixels at a time: 7 or 8
  int64_t band_width;  // pixels of a row of the band
  int type, bias_type;
};

}  // namespace fk::cpu

// Output rows [first, last) of an image, channels from `channel`, a multiple of the block; `band`
// is scratch.
FK_CPU_KERNEL(depthwise, const Depthwise&, int64_t image, int64_t first, int64_t last,
              int64_t channel, float* band)
