// SPDX-License-Identifier: Apache-2.0
// The kernel of depthwise.hpp: fills the band, then sums kColumns output pixels at a time.
#include "depthwise.hpp"

#include "simd.hpp"

namespace fk::cpu::FK_CPU_LEVEL {

namespace {

// Copies input rows to the band, kDepthwiseBlock floats per pixel; pixels outside the image are 0.
template <class T>
FK_INLINE void fill_band(const Depthwise& a, int64_t image, int64_t first_row, int64_t rows,
                         int64_t channel, float* band) {
  const int64_t left = a.channels - channel;
  const int64_t count = left < kDepthwiseBlock ? left : kDepthwiseBlock;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t iy = first_row * a.stride[0] - a.padding[0] + r;
    float* to = band + r * a.band_width * kDepthwiseBlock;
    if (iy < 0 || iy >= a.in[0]) {
      __builtin_memset(to, 0, static_cast<size_t>(a.band_width * kDepthwiseBlock) * sizeof(float));
      continue;
    }
    const T* x =
        static_cast<const T*>(a.x) + (image * a.in[0] + iy) * a.in[1] * a.channels + channel;
    for (int64_t c = 0; c < a.band_width; ++c, to += kDepthwiseBlock) {
      const int64_t ix = c - a.padding[1];
      const bool inside = ix >= 0 && ix < a.in[1];
      for (int64_t v = 0; v < kDepthwiseBlock; v += kLanes) {
        const int64_t n = inside ? count - v : 0;
        const T* from = x + ix * a.channels + v;
        store(to + v, n >= kLanes ? load(from) : n > 0 ? load_n(from, n) : Vf{});
      }
    }
  }
}

// Sums kColumns output pixels of a row for one vector of channels. kStep is the distance of their
// windows in the band, in floats; 0: computed from the stride at run time.
template <int kColumns, int64_t kStep>
FK_INLINE void convolve(const Depthwise& a, const float* window, const float* weight, Vf* sums) {
  const int64_t step = kStep ? kStep : a.stride[1] * kDepthwiseBlock;
  for (int64_t ky = 0; ky < a.kernel[0]; ++ky) {
    const float* row = window + ky * a.dilation[0] * a.band_width * kDepthwiseBlock;
    for (int64_t kx = 0; kx < a.kernel[1]; ++kx, weight += a.weight_stride) {
      const float* p = row + kx * a.dilation[1] * kDepthwiseBlock;
      const Vf w = load(weight);
      for (int j = 0; j < kColumns; ++j) sums[j] += load(p + j * step) * w;
    }
  }
}

// Output rows [first, last) from the band, for all vectors of the block of channels.
template <int kColumns>
FK_INLINE void band_rows(const Depthwise& a, int64_t image, int64_t first, int64_t last,
                         int64_t channel, const float* band) {
  for (int64_t v = channel; v < channel + kDepthwiseBlock && v < a.channels; v += kLanes) {
    const int64_t lanes_left = a.channels - v, n = lanes_left < kLanes ? lanes_left : kLanes;
    Vf bias{};
    if (a.bias != nullptr)
      with_type(a.bias_type, [&]<class U>() {
        const U* from = static_cast<const U*>(a.bias) + v;
        bias = n == kLanes ? load(from) : load_n(from, n);
      });
    for (int64_t oy = first; oy < last; ++oy) {
      for (int64_t ox = 0; ox < a.out_size[1]; ox += kColumns) {
        const float* window =
            band +
            ((oy - first) * a.stride[0] * a.band_width + ox * a.stride[1]) * kDepthwiseBlock + v -
            channel;
        Vf sums[kColumns];
        for (int j = 0; j < kColumns; ++j) sums[j] = bias;
        if (a.stride[1] == 1)
          convolve<kColumns, kDepthwiseBlock>(a, window, a.weight + v, sums);
        else
          convolve<kColumns, 0>(a, window, a.weight + v, sums);
        with_type(a.type, [&]<class T>() {
          T* out = static_cast<T*>(a.out) +
                   ((image * a.out_size[0] + oy) * a.out_size[1] + ox) * a.channels + v;
          for (int j = 0; j < kColumns && ox + j < a.out_size[1]; ++j, out += a.channels) {
            if (n == kLanes)
              store(out, sums[j]);
            else
              store_n(out, sums[j], n);
          }
        });
      }
    }
  }
}

}  // namespace

void depthwise(const Depthwise& a, int64_t image, int64_t first, int64_t last, int64_t channel,
               float* band) {
  const int64_t rows = (last - first - 1) * a.stride[0] + a.dilation[0] * (a.kernel[0] - 1) + 1;
  with_type(a.type, [&]<class T>() { fill_band<T>(a, image, first, rows, channel, band); });
  if (a.columns == 7)
    band_rows<7>(a, image, first, last, channel, band);
  else
    band_rows<8>(a, image, first, last, channel, band);
}

}  // namespace fk::cpu::FK_CPU_LEVEL
