// SPDX-License-Identifier: Apache-2.0
// conv2d where every channel is a group of its own: a block has 64 channels, whose weights it turns in shared memory so that taps are
// rows, and a thread eight of them of four neighbouring pixels.
#include "common.cuh"
#include "fk/ops/conv2d.h"

namespace {
using namespace fkc;
constexpr int kThreads = 256, kVectors = 8, kChannels = kVectors * 8, kPixels = 4, kOfBlock = kThreads / kVectors * kPixels;
constexpr int64_t kTapsMost = 144;  // whose float32 weights are in what shared memory a block has without asking for more

struct Window {
  int channels, taps, kernel_wide, high, wide, out_high, out_wide;
  int stride_y, stride_x, pad_y, pad_x, step_y, step_x;
};

template <class T>
__global__ void __launch_bounds__(kThreads)
depthwise(const T* x, Parameter<T> weight, Parameter<T> bias, T* out, Window w) {
  auto* const weights = reinterpret_cast<float*>(dynamic_shared());
  wait_for_inputs();
  const int first = int(blockIdx.y) * kChannels, channels = min(kChannels, w.channels - first);
  for (int i = int(threadIdx.x); i < channels * w.taps; i += kThreads)
    weights[i % w.taps * kChannels + i / w.taps] = weight.one(int64_t(first) * w.taps + i);
  __syncthreads();
  const int vector = int(threadIdx.x) % kVectors, c = first + vector * 8;
  const int64_t image = blockIdx.z, begin = int64_t(blockIdx.x) * kOfBlock + int(threadIdx.x) / kVectors * kPixels, count = int64_t(w.out_high) * w.out_wide;
  if (c >= w.channels || begin >= count) return;
  x += image * w.high * w.wide * w.channels + c;
  int top[kPixels], left[kPixels];
  float sum[kPixels][8], b[8];
  bias.load(c, 0, b);
#pragma unroll
  for (int p = 0; p < kPixels; ++p) {
    const int pixel = int(begin) + p;
    top[p] = pixel < count ? pixel / w.out_wide * w.stride_y - w.pad_y : w.high;  // beyond the image: all zeros
    left[p] = pixel % w.out_wide * w.stride_x - w.pad_x;
#pragma unroll
    for (int k = 0; k < 8; ++k) sum[p][k] = b[k];
  }
  for (int tap = 0; tap < w.taps; ++tap) {
    const int down = tap / w.kernel_wide * w.step_y, across = tap % w.kernel_wide * w.step_x;
    const float4 low = *reinterpret_cast<const float4*>(weights + tap * kChannels + vector * 8);
    const float4 up = *reinterpret_cast<const float4*>(weights + tap * kChannels + vector * 8 + 4);
    const float of[8] = {low.x, low.y, low.z, low.w, up.x, up.y, up.z, up.w};
#pragma unroll
    for (int p = 0; p < kPixels; ++p) {
      const int iy = top[p] + down, ix = left[p] + across;
      if (iy < 0 || iy >= w.high || ix < 0 || ix >= w.wide) continue;
      const Pack<T> v = load8(x + (int64_t(iy) * w.wide + ix) * w.channels);
#pragma unroll
      for (int k = 0; k < 8; ++k) sum[p][k] += of[k] * to_float(v.at[k]);
    }
  }
#pragma unroll
  for (int p = 0; p < kPixels; ++p) {
    if (begin + p >= count) break;
    Pack<T> o;
#pragma unroll
    for (int k = 0; k < 8; ++k) o.at[k] = from_float<T>(sum[p][k]);
    store8(out + (image * count + begin + p) * w.channels + c, o);
  }
}

struct Conv2d : Base<fk::conv2d> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need&) {
    need_16bit(max.x);
    need(init.groups == init.in_channels && init.groups == init.out_channels, "groups: one for each channel only");
    need(init.in_channels % 8 == 0, "channels: a multiple of 8 only");
    need(init.kernel_size->at[0] * init.kernel_size->at[1] <= kTapsMost, "kernel_size: up to 144 taps");
    need_parameter(weights.weight, max.x);
    need_parameter(weights.bias.or_null, max.x);
    need(max.x->shape[0] < 65536 && cdiv(init.in_channels, kChannels) < 65536, "images: fewer");
    need(fk_numel(max.x) < int64_t{1} << 31 && max.out->shape[1] * max.out->shape[2] < int64_t{1} << 30, "images: smaller");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t images = a.x->shape[0], pixels = a.out->shape[1] * a.out->shape[2];
    if (!images || !pixels) return;
    const auto whole = [](const fk_ints* list, int i) { return int(list->at[i]); };
    const int high = whole(init.kernel_size, 0), wide = whole(init.kernel_size, 1);
    const Window window{int(init.in_channels), high * wide, wide, int(a.x->shape[1]), int(a.x->shape[2]), int(a.out->shape[1]), int(a.out->shape[2]),
                        whole(init.stride, 0), whole(init.stride, 1), whole(init.padding, 0), whole(init.padding, 1), whole(init.dilation, 0),
                        whole(init.dilation, 1)};
    const dim3 grid(unsigned(cdiv(pixels, kOfBlock)), unsigned(cdiv(init.in_channels, kChannels)), unsigned(images));
    dispatch(a.x, [&](auto type) {
      using T = decltype(type);
      launch(depthwise<T>, grid, kThreads, size_t(window.taps) * kChannels * 4, ctx, fk::data<T>(a.x), parameter<T>(weights.weight),
             parameter<T>(weights.bias.or_null), fk::data<T>(a.out), window);
    });
  }
};
FK_OP(conv2d, Conv2d);

}  // namespace
