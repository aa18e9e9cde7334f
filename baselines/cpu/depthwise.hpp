// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution with channels last. The kernel copies a band of rows of a block of channels
// to float32, with zeros around it. The copy fits into the second-level cache. Then the sums of 7
// or 8 output pixels of a row stay in registers while the window passes by. The zeros make tests
// for borders needless.
#pragma once
#include "level.hpp"

namespace fk::cpu {

inline constexpr int64_t kDepthwiseBlock = 16;  // channels

// Arguments of one call. Arrays of two are rows, columns.
struct Depthwise {
  const void *x, *bias;  // [B, in, channels]; bias may be null
  void* out;             // [B, out_size, channels]
  const float* weight;   // [taps, weight_stride], zeros behind the channels
  int64_t channels, weight_stride;
  int64_t in[2], out_size[2], kernel[2], stride[2], padding[2], dilation[2];
  int64_t columns;     // output pixels at a time: 7 or 8
  int64_t band_width;  // pixels of a row of the band, with its zeros
  int type, bias_type;
};

}  // namespace fk::cpu

// Output rows [first, last) of an image, channels from `channel` on, a multiple of kDepthwiseBlock.
// `band` is scratch.
FK_CPU_KERNEL(depthwise, const Depthwise&, int64_t image, int64_t first, int64_t last,
              int64_t channel, float* band)
