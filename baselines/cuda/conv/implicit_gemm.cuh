// SPDX-License-Identifier: Apache-2.0
// Convolutions with one group as a product (parts/gemm_tile.cuh): rows are pixels of the result,
// and K is [taps, channels]. A block gathers the pixels which its rows see. Weights are [outputs,
// taps, channels].
#pragma once
#include "../parts/each_item.cuh"
#include "../parts/gemm_tile.cuh"
#include "shape.cuh"

namespace fkc::conv {

template <class T, int kHigh, int kAcross>
__global__ void __launch_bounds__(kTileThreads)
    implicit_gemm(const T* x, const T* weight, Ending<T> ending, T* out, Window w, int pixels) {
  char* const shared = dynamic_shared();
  wait_for_inputs();
  constexpr int kRowsAtOnce = kTileThreads / 8;  // eight threads have the pieces of a row
  const int piece = int(threadIdx.x) % 8, line = int(threadIdx.x) / 8, deep = w.taps * w.channels;
  const int first_row = int(blockIdx.x) * 32 * kHigh, first_column = int(blockIdx.y) * 32 * kAcross;
  // The pixels of x which the first tap of this thread's rows sees.
  int top[kHigh], left[kHigh];
  const T* image[kHigh];
#pragma unroll
  for (int i = 0; i < kHigh; ++i) {
    const int row = first_row + i * kRowsAtOnce + line, at = min(row, pixels - 1);
    const int y = at / w.out_wide, b = y / w.out_high;
    top[i] = row < pixels ? (y - b * w.out_high) * w.stride_y - w.pad_y : -(1 << 30);
    left[i] = (at - y * w.out_wide) * w.stride_x - w.pad_x;
    image[i] = x + int64_t(b) * w.high * w.wide * w.channels;
  }
  float acc[kHigh][kAcross][4];
  tile_product<T>(
      shared, (deep + kDepth - 1) / kDepth, acc,
      [&](int step, uint32_t to_left, uint32_t to_right) {
        const int k = step * kDepth + piece * 8, tap = k / w.channels,
                  channel = k - tap * w.channels;
        const int down = tap / w.kernel_wide * w.step_y, across = tap % w.kernel_wide * w.step_x;
#pragma unroll
        for (int i = 0; i < kHigh; ++i) {
          const int y = top[i] + down, c = left[i] + across;
          const bool there = k < deep && y >= 0 && y < w.high && c >= 0 && c < w.wide;
          cp_async_16(in_tile(to_left, i * kRowsAtOnce + line, piece),
                      there ? image[i] + (int64_t(y) * w.wide + c) * w.channels + channel : x,
                      there);
        }
#pragma unroll
        for (int i = 0; i < kAcross; ++i) {
          const int column = first_column + i * kRowsAtOnce + line;
          const bool there = k < deep && column < w.outputs;
          cp_async_16(in_tile(to_right, i * kRowsAtOnce + line, piece),
                      there ? weight + int64_t(column) * deep + k : weight, there);
        }
      });
  each_of_tile(acc, [&](int row, int column, float v, float u) {
    row += first_row, column += first_column;
    if (row >= pixels || column >= w.outputs) return;
    if (ending.scale) {
      v = v * ending.scale[column] + ending.shift[column];
      u = u * ending.scale[column + 1] + ending.shift[column + 1];
      v = activate(ending.activation, v), u = activate(ending.activation, u);
    } else if (ending.bias.narrow || ending.bias.wide) {
      v += ending.bias.one(column), u += ending.bias.one(column + 1);
    }
    store_floats(out + int64_t(row) * w.outputs + column, v, u);
  });
}

// Filters [outputs, channels, taps] as [outputs, taps, channels].
template <class T>
struct ChannelsLast {
  const T* from;
  T* to;
  int channels, taps;
  __device__ void operator()(int64_t i) const {
    const int64_t filter = i / channels / taps;
    const int tap = int(i / channels % taps), channel = int(i % channels);
    to[i] = from[(filter * channels + channel) * taps + tap];
  }
};

template <class Init>
void need_implicit_gemm(const Init& init, const fk_in* weight, const fk_in* x, const fk_in* out) {
  need_16bit(x);
  need(FK_DTYPE(weight) == FK_DTYPE(x), "weight: the dtype of x only");
  need(init.groups == 1, "groups: one, or one for each channel");
  need(init.in_channels % 8 == 0 && init.out_channels % 8 == 0, "channels: multiples of 8 only");
  constexpr int64_t kMost = int64_t{1} << 30;
  need(out->shape[0] * out->shape[1] * out->shape[2] < kMost && x->shape[1] < kMost &&
           x->shape[2] < kMost &&
           init.in_channels * init.kernel_size->at[0] * init.kernel_size->at[1] < kMost &&
           init.out_channels < 65536 * 64,
       "images: smaller");
}
// Bytes of weights in the order of this kernel; 0 if they have it.
template <class Init>
int64_t turned_bytes(const Init& init) {
  const int64_t taps = init.kernel_size->at[0] * init.kernel_size->at[1];
  return taps > 1 ? cdiv(init.out_channels * init.in_channels * taps * 2, 256) * 256 : 0;
}
template <class Init>
void turn_weights(const Init& init, const fk_in* weight, const fk_memory& memory) {
  const int64_t taps = init.kernel_size->at[0] * init.kernel_size->at[1];
  fk_ctx ctx{};
  ctx.stream = memory.stream;
  for_each_item(fk_numel(weight), ctx,
                ChannelsLast<uint16_t>{fk::data<uint16_t>(weight), static_cast<uint16_t*>(memory.packed),
                                       int(init.in_channels), int(taps)});
}

template <class T>
void launch_implicit_gemm(const Window& w, int64_t images, const T* x, const T* weight,
                          const Ending<T>& ending, T* out, const fk_ctx& ctx) {
  const int64_t pixels = images * w.out_high * w.out_wide;
  if (!pixels) return;
  // Narrow tiles where others would be half empty, or too few for all multiprocessors.
  const bool narrow = w.outputs <= 64,
             low = cdiv(pixels, 128) * cdiv(w.outputs, narrow ? 64 : 128) < 2 * sm_count();
  const auto go = [&](auto high, auto across) {
    constexpr int kHigh = decltype(high)::value, kAcross = decltype(across)::value;
    constexpr int kBytes = kTileStages * (kTileSide<kHigh> + kTileSide<kAcross>);
    const auto kernel = implicit_gemm<T, kHigh, kAcross>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    launch(kernel,
           dim3(unsigned(cdiv(pixels, 32 * kHigh)), unsigned(cdiv(w.outputs, 32 * kAcross))),
           dim3(kTileThreads), size_t(kBytes), ctx, x, weight, ending, out, w, int(pixels));
  };
  using Two = std::integral_constant<int, 2>;
  using Four = std::integral_constant<int, 4>;
  if (narrow || low)
    low ? go(Two{}, Two{}) : go(Four{}, Two{});
  else
    go(Four{}, Four{});
}

}  // namespace fkc::conv
