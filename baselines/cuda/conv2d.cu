// SPDX-License-Identifier: Apache-2.0
// conv2d. Where every channel is a group of its own, a block has 64 channels, whose weights it turns in shared memory so that taps
// are rows, and a thread eight of them of four neighbouring pixels. Without groups it is a product on tensor cores, of which a row is
// a pixel of out with all that its kernel sees, tap after tap, gathered from x as it is needed; the weights lie in that order too.
#include "fk/ops/conv2d.h"
#include "tile_product.cuh"

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

// [O, C, taps] -> [O, taps, C]
template <class T> __global__ void __launch_bounds__(kThreads) taps_first(const T* weight, T* packed, int64_t size, int channels, int taps) {
  wait_for_inputs();
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x, row = i / (int64_t(channels) * taps), at = i % (int64_t(channels) * taps);
  if (i < size) packed[i] = weight[(row * channels + at % channels) * taps + at / channels];
}

// blockIdx.x: tile of channels of out; blockIdx.y: tile of pixels, counted over all images.
template <class T>
__global__ void __launch_bounds__(kTileThreads) dense(const T* x, const T* weight, Parameter<T> bias, T* out, Window w, int64_t pixels, int out_channels) {
  char* const shared = dynamic_shared();
  wait_for_inputs();
  const int64_t first_pixel = int64_t(blockIdx.y) * kTile;
  const int piece = threadIdx.x % 8, k = w.taps * w.channels, first = blockIdx.x * kTile;
  const T* b_from[4];
  int64_t image[4];
  int top[4], left[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = i * 32 + threadIdx.x / 8;
    const int64_t pixel = first_pixel + row, of_image = int64_t(w.out_high) * w.out_wide, at = pixel % of_image;
    image[i] = pixel / of_image * w.high * w.wide * w.channels;
    top[i] = pixel < pixels ? int(at / w.out_wide) * w.stride_y - w.pad_y : w.high;  // beyond the image: all zeros
    left[i] = int(at % w.out_wide) * w.stride_x - w.pad_x;
    b_from[i] = first + row < out_channels ? weight + int64_t(first + row) * k : nullptr;
  }
  float acc[4][4][4];
  tile_product<T>(shared, (k + kDepth - 1) / kDepth, acc, [&](int step, uint32_t a_side, uint32_t b_side) {
    const int at = step * kDepth + piece * 8, tap = at / w.channels, channel = at % w.channels;  // eight channels are of one tap
    const int down = tap / w.kernel_wide * w.step_y, across = tap % w.kernel_wide * w.step_x;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = i * 32 + threadIdx.x / 8, y = top[i] + down, z = left[i] + across;
      const bool seen = at < k && y >= 0 && y < w.high && z >= 0 && z < w.wide, there = at < k && b_from[i];
      copy_async(in_tile(a_side, row, piece), seen ? x + image[i] + (int64_t(y) * w.wide + z) * w.channels + channel : x, seen);
      copy_async(in_tile(b_side, row, piece), there ? b_from[i] + at : weight, there);
    }
  });
  each_of_tile(acc, [&](int row, int column, float v, float u) {
    const int64_t pixel = first_pixel + row;
    const int channel = first + column;
    if (pixel >= pixels || channel >= out_channels) return;
    if (bias.narrow || bias.wide) v += bias.one(channel), u += bias.one(channel + 1);
    *reinterpret_cast<uint32_t*>(out + pixel * out_channels + channel) = pair<T>(v, u);
  });
}

struct Conv2d : Base<fk::conv2d> {
  using Base::Base;
  static int64_t taps_of(const op::init& init) { return init.kernel_size->at[0] * init.kernel_size->at[1]; }
  static bool is_dense(const op::init& init) { return init.groups == 1 && init.out_channels > 1; }
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need& wanted) {
    need_16bit(max.x);
    need_parameter(weights.bias.or_null, max.x);
    need(init.in_channels % 8 == 0, "channels: a multiple of 8 only");
    need(fk_numel(max.x) < int64_t{1} << 31 && max.out->shape[1] * max.out->shape[2] < int64_t{1} << 30, "images: smaller");
    if (is_dense(init)) {
      need(FK_DTYPE(weights.weight) == FK_DTYPE(max.x), "weight: the dtype of x only");
      need(init.out_channels % 2 == 0 && init.out_channels < (1 << 30) && taps_of(init) * init.in_channels < (1 << 30), "channels of out: even, and fewer");
      need(cdiv(max.x->shape[0] * max.out->shape[1] * max.out->shape[2], kTile) < 65536, "images: fewer");
      wanted.packed = fk_numel(weights.weight) * 2;
      return;
    }
    need(init.groups == init.in_channels && init.groups == init.out_channels, "groups: none, or one for each channel");
    need(taps_of(init) <= kTapsMost, "kernel_size: up to 144 taps");
    need_parameter(weights.weight, max.x);
    need(max.x->shape[0] < 65536 && cdiv(init.in_channels, kChannels) < 65536, "images: fewer");
  }
  void prepare(const op::forward&, const fk_memory& memory) {
    packed_ = memory.packed;
    if (!is_dense(init) || memory.packed_ready) return;
    const int64_t size = fk_numel(weights.weight);
    const fk_ctx on_no_stream{};
    dispatch(weights.weight, [&](auto type) {
      using T = decltype(type);
      launch(taps_first<T>, unsigned(cdiv(size, kThreads)), kThreads, 0, on_no_stream, fk::data<T>(weights.weight), static_cast<T*>(packed_), size,
             int(init.in_channels), int(taps_of(init)));
    });
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t images = a.x->shape[0], pixels = a.out->shape[1] * a.out->shape[2];
    if (!images || !pixels) return;
    const auto whole = [](const fk_ints* list, int i) { return int(list->at[i]); };
    const int high = whole(init.kernel_size, 0), wide = whole(init.kernel_size, 1);
    const Window window{int(init.in_channels), high * wide, wide, int(a.x->shape[1]), int(a.x->shape[2]), int(a.out->shape[1]), int(a.out->shape[2]),
                        whole(init.stride, 0), whole(init.stride, 1), whole(init.padding, 0), whole(init.padding, 1), whole(init.dilation, 0),
                        whole(init.dilation, 1)};
    if (is_dense(init)) {
      const int64_t all = images * pixels;
      return dispatch(a.x, [&](auto type) {
        using T = decltype(type);
        cudaFuncSetAttribute(dense<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, kTileShared);
        launch(dense<T>, dim3(unsigned(cdiv(init.out_channels, kTile)), unsigned(cdiv(all, kTile))), kTileThreads, kTileShared, ctx, fk::data<T>(a.x),
               static_cast<const T*>(packed_), parameter<T>(weights.bias.or_null), fk::data<T>(a.out), window, all, int(init.out_channels));
      });
    }
    const dim3 grid(unsigned(cdiv(pixels, kOfBlock)), unsigned(cdiv(init.in_channels, kChannels)), unsigned(images));
    dispatch(a.x, [&](auto type) {
      using T = decltype(type);
      launch(depthwise<T>, grid, kThreads, size_t(window.taps) * kChannels * 4, ctx, fk::data<T>(a.x), parameter<T>(weights.weight),
             parameter<T>(weights.bias.or_null), fk::data<T>(a.out), window);
    });
  }

 private:
  void* packed_ = nullptr;
};
FK_OP(conv2d, Conv2d);

}  // namespace
