// SPDX-License-Identifier: Apache-2.0
// conv2d with a group for each channel, for which cuDNN has no fast kernel (cudnn has all others).
// A block has 64 channels. It transposes their weights in shared memory, so that taps are rows. A
// thread has eight channels of four neighbouring pixels of a row. If the pixels are one apart in x
// as well, each element of x is read and widened once for all four.
#include <type_traits>

#include "fk/ops/conv2d.h"
#include "parts/op.cuh"
#include "parts/shared_memory.cuh"

namespace {
using namespace fkc;
constexpr int kThreads = 128, kVectors = 8, kChannels = kVectors * 8, kPixels = 4, kOfBlock = kThreads / kVectors;
constexpr int64_t kTapsMost = 144;  // their float32 weights fit into the shared memory of any block

struct Window {
  int channels, taps, kernel_wide, high, wide, out_high, out_wide;
  int stride_y, stride_x, pad_y, pad_x, step_y, step_x;
};

// The dtype of parameters which are not float32.
template <class T> using Narrow = std::conditional_t<std::is_same_v<T, float>, __half, T>;

// kWide: columns of a kernel with a stride and dilation of 1 in x; 0: any other kernel. blockIdx.x:
// fours of pixels of an image; y: channels.
template <class T, int kWide>
__global__ void __launch_bounds__(kThreads)
depthwise(const T* x, Parameter<Narrow<T>> weight, Parameter<Narrow<T>> bias, T* out, Window w) {
  auto* const weights = reinterpret_cast<float*>(dynamic_shared());
  wait_for_inputs();
  const int first = int(blockIdx.y) * kChannels, channels = min(kChannels, w.channels - first);
  for (int i = int(threadIdx.x); i < channels * w.taps; i += kThreads)
    weights[i % w.taps * kChannels + i / w.taps] = weight.one(int64_t(first) * w.taps + i);
  __syncthreads();
  const int vector = int(threadIdx.x) % kVectors, c = first + vector * 8, fours = (w.out_wide + kPixels - 1) / kPixels;
  const int four = int(blockIdx.x) * kOfBlock + int(threadIdx.x) / kVectors, row = four / fours, column = four % fours * kPixels;
  if (c >= w.channels || row >= w.out_high) return;
  const int64_t image = blockIdx.z;
  x += image * w.high * w.wide * w.channels + c;
  const float* const mine = weights + vector * 8;
  float sum[kPixels][8];
  bias.load(c, 0, sum[0]);
#pragma unroll
  for (int p = 1; p < kPixels; ++p)
#pragma unroll
    for (int k = 0; k < 8; ++k) sum[p][k] = sum[0][k];
  const int top = row * w.stride_y - w.pad_y, left = column * w.stride_x - w.pad_x, rows = w.taps / w.kernel_wide;
  for (int down = 0; down < rows; ++down) {
    const int y = top + down * w.step_y;
    if (y < 0 || y >= w.high) continue;
    const T* const line = x + int64_t(y) * w.wide * w.channels;
    const float* const taps = mine + down * w.kernel_wide * kChannels;
    if constexpr (kWide > 0) {
#pragma unroll
      for (int j = 0; j < kWide + kPixels - 1; ++j) {
        float v[8] = {};
        if (left + j >= 0 && left + j < w.wide) load_floats(line + int64_t(left + j) * w.channels, v);
#pragma unroll
        for (int p = 0; p < kPixels; ++p) {
          if (j < p || j >= p + kWide) continue;
          float of[8];
          load_floats(taps + (j - p) * kChannels, of);
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
#pragma unroll
  for (int p = 0; p < kPixels; ++p)
    if (column + p < w.out_wide) store_floats(out + ((image * w.out_high + row) * w.out_wide + column + p) * w.channels + c, sum[p]);
}

struct Conv2d : Base<fk::conv2d> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need&) {
    if (FK_DTYPE(max.x) != FK_F32) need_16bit(max.x);
    need_parameter(weights.weight, max.x);
    need_parameter(weights.bias.or_null, max.x);
    need(init.groups == init.in_channels && init.groups == init.out_channels, "groups: one for each channel only");
    need(init.in_channels % 8 == 0, "channels: a multiple of 8 only");
    need(init.kernel_size->at[0] * init.kernel_size->at[1] <= kTapsMost, "kernel_size: up to 144 taps");
    need(fk_numel(max.x) < int64_t{1} << 31 && max.out->shape[1] * max.out->shape[2] < int64_t{1} << 30, "images: smaller");
    need(max.x->shape[0] < 65536 && cdiv(init.in_channels, kChannels) < 65536, "images: fewer");
    constexpr int64_t kFar = 1 << 30;  // for products in 32 bits
    for (int i = 0; i < 2; ++i)
      need(init.stride->at[i] < kFar && init.stride->at[i] * max.out->shape[i + 1] < kFar && init.padding->at[i] < kFar &&
               init.dilation->at[i] < kFar && init.dilation->at[i] * init.kernel_size->at[i] < kFar,
           "stride, padding, dilation: smaller");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t images = a.x->shape[0], fours = a.out->shape[1] * cdiv(a.out->shape[2], kPixels);
    if (!images || !fours) return;
    const auto whole = [](const fk_ints* list, int i) { return int(list->at[i]); };
    const int high = whole(init.kernel_size, 0), wide = whole(init.kernel_size, 1);
    const Window window{int(init.in_channels), high * wide, wide, int(a.x->shape[1]), int(a.x->shape[2]), int(a.out->shape[1]), int(a.out->shape[2]),
                        whole(init.stride, 0), whole(init.stride, 1), whole(init.padding, 0), whole(init.padding, 1), whole(init.dilation, 0),
                        whole(init.dilation, 1)};
    const int moves_by_one = window.stride_x == 1 && window.step_x == 1 ? wide : 0;
    const dim3 grid(unsigned(cdiv(fours, kOfBlock)), unsigned(cdiv(init.in_channels, kChannels)), unsigned(images));
    const auto start = [&](auto type) {
      using T = decltype(type);
      const auto kernel = moves_by_one == 3 ? depthwise<T, 3> : moves_by_one == 7 ? depthwise<T, 7> : depthwise<T, 0>;
      launch(kernel, grid, kThreads, size_t(window.taps) * kChannels * 4, ctx, fk::data<T>(a.x), parameter<Narrow<T>>(weights.weight),
             parameter<Narrow<T>>(weights.bias.or_null), fk::data<T>(a.out), window);
    };
    if (FK_DTYPE(a.x) == FK_F32) return start(float{});
    dispatch(a.x, start);
  }
};
FK_OP(conv2d, Conv2d);

}  // namespace
