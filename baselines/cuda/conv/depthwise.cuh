// SPDX-License-Identifier: Apache-2.0
// Convolutions with a group for each channel, for which cuDNN has no fast kernel. A block has 64
// channels. It transposes their weights in shared memory, so that taps are rows. A thread has eight
// channels of four neighbouring pixels of a row. If the kernel's width and stride are known, each
// element of x is read and widened once for all four.
#pragma once
#include "../parts/shared_memory.cuh"
#include "shape.cuh"

namespace fkc::conv {

constexpr int kThreads = 128, kVectors = 8, kChannels = kVectors * 8, kPixels = 4,
              kOfBlock = kThreads / kVectors;
constexpr int64_t kTapsMost = 144;  // their float32 weights fit into the shared memory of any block

// kWide: columns of a kernel with a dilation of 1 in x and a stride of kStride; 0: any other
// kernel. blockIdx.x: fours of pixels of an image; y: channels; z: images.
template <class T, int kWide, int kStride>
__global__ void __launch_bounds__(kThreads)
    depthwise(const T* x, Parameter<Narrow<T>> weight, Ending<T> ending, T* out, Window w) {
  auto* const weights = reinterpret_cast<float*>(dynamic_shared());
  wait_for_inputs();
  const int first = int(blockIdx.y) * kChannels, channels = min(kChannels, w.channels - first);
  for (int i = int(threadIdx.x); i < channels * w.taps; i += kThreads)
    weights[i % w.taps * kChannels + i / w.taps] = weight.one(int64_t(first) * w.taps + i);
  __syncthreads();
  const int vector = int(threadIdx.x) % kVectors, c = first + vector * 8,
            fours = (w.out_wide + kPixels - 1) / kPixels;
  const int four = int(blockIdx.x) * kOfBlock + int(threadIdx.x) / kVectors, row = four / fours,
            column = four % fours * kPixels;
  if (c >= w.channels || row >= w.out_high) return;
  const int64_t image = blockIdx.z;
  x += image * w.high * w.wide * w.channels + c;
  const float* const mine = weights + vector * 8;
  float sum[kPixels][8], factor[8];
  ending.bias.load(c, 0, sum[0]);
#pragma unroll
  for (int p = 1; p < kPixels; ++p)
#pragma unroll
    for (int k = 0; k < 8; ++k) sum[p][k] = sum[0][k];
  const int top = row * w.stride_y - w.pad_y, left = column * w.stride_x - w.pad_x,
            rows = w.taps / w.kernel_wide;
  for (int down = 0; down < rows; ++down) {
    const int y = top + down * w.step_y;
    if (y < 0 || y >= w.high) continue;
    const T* const line = x + int64_t(y) * w.wide * w.channels;
    const float* const taps = mine + down * w.kernel_wide * kChannels;
    if constexpr (kWide > 0) {
#pragma unroll
      for (int j = 0; j < kWide + (kPixels - 1) * kStride; ++j) {
        float v[8] = {};
        if (left + j >= 0 && left + j < w.wide)
          load_floats(line + int64_t(left + j) * w.channels, v);
#pragma unroll
        for (int p = 0; p < kPixels; ++p) {
          const int tap = j - p * kStride;
          if (tap < 0 || tap >= kWide) continue;
          float of[8];
          load_floats(taps + tap * kChannels, of);
#pragma unroll
          for (int k = 0; k < 8; ++k) sum[p][k] += of[k] * v[k];
        }
      }
    } else {
      for (int across = 0; across < w.kernel_wide; ++across) {
        float of[8];
        load_floats(taps + across * kChannels, of);
#pragma unroll
        for (int p = 0; p < kPixels; ++p) {
          const int at = left + p * w.stride_x + across * w.step_x;
          if (at < 0 || at >= w.wide) continue;
          float v[8];
          load_floats(line + int64_t(at) * w.channels, v);
#pragma unroll
          for (int k = 0; k < 8; ++k) sum[p][k] += of[k] * v[k];
        }
      }
    }
  }
  if (ending.scale) {
    float added[8];
    load_floats(ending.scale + c, factor), load_floats(ending.shift + c, added);
#pragma unroll
    for (int p = 0; p < kPixels; ++p)
#pragma unroll
      for (int k = 0; k < 8; ++k)
        sum[p][k] = activate(ending.activation, sum[p][k] * factor[k] + added[k]);
  }
#pragma unroll
  for (int p = 0; p < kPixels; ++p)
    if (column + p < w.out_wide)
      store_floats(out + ((image * w.out_high + row) * w.out_wide + column + p) * w.channels + c,
                   sum[p]);
}

template <class Init>
void need_depthwise(const Init& init, const fk_in* x, const fk_in* out) {
  need(init.in_channels % 8 == 0, "channels: a multiple of 8 only");
  need(init.kernel_size->at[0] * init.kernel_size->at[1] <= kTapsMost,
       "kernel_size: up to 144 taps");
  need(fk_numel(x) < int64_t{1} << 31 && out->shape[1] * out->shape[2] < int64_t{1} << 30,
       "images: smaller");
  need(x->shape[0] < 65536 && cdiv(init.in_channels, kChannels) < 65536, "images: fewer");
}

template <class T>
void launch_depthwise(const Window& w, int64_t images, const T* x, Parameter<Narrow<T>> weight,
                      const Ending<T>& ending, T* out, const fk_ctx& ctx) {
  const int64_t fours = w.out_high * cdiv(w.out_wide, kPixels);
  if (!images || !fours) return;
  const dim3 grid(unsigned(cdiv(fours, kOfBlock)), unsigned(cdiv(w.channels, kChannels)),
                  unsigned(images));
  const auto is = [&](int wide, int stride) {
    return w.kernel_wide == wide && w.stride_x == stride && w.step_x == 1;
  };
  const auto kernel = is(3, 1)   ? depthwise<T, 3, 1>
                      : is(5, 1) ? depthwise<T, 5, 1>
                      : is(7, 1) ? depthwise<T, 7, 1>
                      : is(3, 2) ? depthwise<T, 3, 2>
                      : is(5, 2) ? depthwise<T, 5, 2>
                                 : depthwise<T, 0, 0>;
  launch(kernel, grid, kThreads, size_t(w.taps) * kChannels * 4, ctx, x, weight, ending, out, w);
}

}  // namespace fkc::conv
