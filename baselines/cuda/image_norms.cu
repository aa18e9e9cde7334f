// SPDX-License-Identifier: Apache-2.0
// batch_norm and group_norm with an activation, images channels last, eight channels per thread.
#include "fk/ops/batch_norm.h"
#include "fk/ops/group_norm.h"
#include "parts/activation.cuh"
#include "parts/channel_affine.cuh"
#include "parts/each_item.cuh"
#include "parts/op.cuh"

namespace {
using namespace fkc;

// An item is eight channels of some neighbouring pixels, so their factors are read once.
constexpr int kPixelsOfItem = 4;
template <class T, class F>
struct BatchNormPixels {
  const T* x;
  T* out;
  const float *scale, *shift;
  int64_t rows;
  int vectors;
  __device__ void operator()(int64_t i) const {
    const int64_t first = i / vectors * kPixelsOfItem;
    const int column = int(i % vectors) * 8;
    float factor[8], added[8];
    load_floats(scale + column, factor), load_floats(shift + column, added);
#pragma unroll
    for (int p = 0; p < kPixelsOfItem; ++p) {
      if (first + p >= rows) break;
      const int64_t at = (first + p) * vectors * 8 + column;
      float v[8];
      load_floats(x + at, v);
#pragma unroll
      for (int k = 0; k < 8; ++k) v[k] = F{}(v[k] * factor[k] + added[k]);
      store_floats(out + at, v);
    }
  }
};

// A block has a part of an image's pixels, and a thread has eight channels of some of them. The
// first kernel sums over parts, the second one sums the parts and writes the result.
constexpr int kNormThreads = 512, kPartsMost = 64, kPartPixels = 32;
struct GroupShape {
  int64_t pixels;
  int vectors, groups, of_group, parts, part;  // channels of a group; pixels of a part
  __device__ int column() const { return int(threadIdx.x) % vectors * 8; }
  __device__ int lane() const { return int(threadIdx.x) / vectors; }
  __device__ int lanes() const { return kNormThreads / vectors; }
  // Calls f(element) for the vectors of this thread in the block's part.
  template <class F>
  __device__ void each_vector(F f) const {
    if (lane() >= lanes()) return;
    const int64_t first = int64_t(blockIdx.x) * part, last = min(first + part, pixels);
    for (int64_t p = first + lane(); p < last; p += lanes())
      f((int64_t(blockIdx.y) * pixels + p) * vectors * 8 + column());
  }
  // The first element of an image's group. Sums are those of differences to it, so that squares
  // stay small.
  __device__ int64_t pivot(int group) const {
    return int64_t(blockIdx.y) * pixels * vectors * 8 + int64_t(group) * of_group;
  }
};

// sums: [images, parts, groups], then the same for squares.
template <class T>
__global__ void __launch_bounds__(kNormThreads)
    group_sums(const T* x, float* sums, float* squares, GroupShape s) {
  __shared__ float own[2][kNormThreads * 8];
  wait_for_inputs();
  float pivot[8], sum[8] = {}, square[8] = {};
#pragma unroll
  for (int k = 0; k < 8; ++k) pivot[k] = to_float(x[s.pivot((s.column() + k) / s.of_group)]);
  s.each_vector([&](int64_t at) {
    float v[8];
    load_floats(x + at, v);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const float d = v[k] - pivot[k];
      sum[k] += d, square[k] += d * d;
    }
  });
#pragma unroll
  for (int k = 0; k < 8; ++k)
    own[0][threadIdx.x * 8 + k] = sum[k], own[1][threadIdx.x * 8 + k] = square[k];
  __syncthreads();
  const int items = s.of_group * s.lanes();
  for (int group = int(threadIdx.x) / 32; group < s.groups; group += kNormThreads / 32) {
    float all = 0, all_squares = 0;
    for (int i = int(threadIdx.x) % 32; i < items; i += 32) {
      const int at = i / s.of_group * s.vectors * 8 + group * s.of_group + i % s.of_group;
      all += own[0][at], all_squares += own[1][at];
    }
    all = warp_sum(all), all_squares = warp_sum(all_squares);
    const int64_t to = (int64_t(blockIdx.y) * s.parts + blockIdx.x) * s.groups + group;
    if (threadIdx.x % 32 == 0) sums[to] = all, squares[to] = all_squares;
  }
}

template <class T, class F>
__global__ void __launch_bounds__(kNormThreads)
    group_norm(const T* x, Parameter<T> weight, Parameter<T> bias, T* out, const float* sums,
               const float* squares, GroupShape s, float eps) {
  __shared__ float means[kNormThreads], scales[kNormThreads];
  wait_for_inputs();
  const int group = int(threadIdx.x);
  if (group < s.groups) {
    double sum = 0, square = 0;
    const double count = double(s.pixels) * s.of_group;
    for (int part = 0; part < s.parts; ++part) {
      const int64_t at = (int64_t(blockIdx.y) * s.parts + part) * s.groups + group;
      sum += sums[at], square += squares[at];
    }
    const double mean = sum / count, variance = fmax(square / count - mean * mean, 0.0);
    means[group] = float(double(to_float(x[s.pivot(group)])) + mean);
    scales[group] = float(1.0 / sqrt(variance + double(eps)));
  }
  __syncthreads();
  float factor[8], added[8];
  weight.load(s.column(), 1, factor), bias.load(s.column(), 0, added);
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const int own = (s.column() + k) / s.of_group;
    factor[k] *= scales[own];
    added[k] -= means[own] * factor[k];
  }
  s.each_vector([&](int64_t at) {
    float v[8];
    load_floats(x + at, v);
#pragma unroll
    for (int k = 0; k < 8; ++k) v[k] = F{}(v[k] * factor[k] + added[k]);
    store_floats(out + at, v);
  });
}

struct BatchNorm : Base<fk::batch_norm> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& wanted) {
    need_16bit(max.x);
    need(init.size % 8 == 0, "size: a multiple of 8 only");
    for (const fk_in* view :
         {weights.weight.or_null, weights.bias.or_null, weights.mean, weights.variance})
      need_parameter(view, max.x);
    wanted.packed = affine_bytes(init.size);
  }
  void prepare(const op::forward& max, const fk_memory& memory) {
    table_ = static_cast<float*>(memory.packed);
    if (memory.packed_ready) return;
    dispatch(max.x, [&](auto type) {
      using T = decltype(type);
      fold_norm(
          NormOf<T>{parameter<T>(weights.weight.or_null), parameter<T>(weights.bias.or_null),
                    parameter<T>(weights.mean), parameter<T>(weights.variance), float(init.eps)},
          init.size, table_, memory.stream);
    });
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t rows = a.x->shape[0], vectors = init.size / 8;
    dispatch(a.x, [&](auto type) {
      with_activation(init.activation, [&](auto f) {
        using T = decltype(type);
        for_each_item(cdiv(rows, kPixelsOfItem) * vectors, ctx,
                      BatchNormPixels<T, decltype(f)>{fk::data<T>(a.x), fk::data<T>(a.out), table_,
                                                      table_ + init.size, rows, int(vectors)});
      });
    });
  }

 private:
  float* table_ = nullptr;  // factors of channels, then numbers to add
};

struct GroupNorm : Base<fk::group_norm> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& wanted) {
    need_16bit(max.x);
    need(init.num_channels % 8 == 0 && init.num_channels <= kNormThreads * 8,
         "num_channels: a multiple of 8 up to 4096");
    need(init.num_channels % init.num_groups == 0 && init.num_groups <= kNormThreads,
         "num_groups: divides num_channels, up to 512");
    need(max.x->shape[0] < 65536, "images: fewer");
    need_parameter(weights.weight.or_null, max.x);
    need_parameter(weights.bias.or_null, max.x);
    wanted.scratch = max.x->shape[0] * kPartsMost * init.num_groups * 8;
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t images = a.x->shape[0], pixels = a.x->shape[1] * a.x->shape[2];
    if (!images || !pixels) return;
    const int64_t part = std::max<int64_t>(cdiv(pixels, kPartsMost), kPartPixels),
                  parts = cdiv(pixels, part);
    const GroupShape shape{pixels,
                           int(init.num_channels / 8),
                           int(init.num_groups),
                           int(init.num_channels / init.num_groups),
                           int(parts),
                           int(part)};
    float* const sums = static_cast<float*>(ctx.scratch);
    float* const squares = sums + images * parts * init.num_groups;
    const dim3 grid(static_cast<unsigned>(parts), static_cast<unsigned>(images));
    dispatch(a.x, [&](auto type) {
      using T = decltype(type);
      launch(group_sums<T>, grid, kNormThreads, 0, ctx, fk::data<T>(a.x), sums, squares, shape);
      with_activation(init.activation, [&](auto f) {
        launch(group_norm<T, decltype(f)>, grid, kNormThreads, 0, ctx, fk::data<T>(a.x),
               parameter<T>(weights.weight.or_null), parameter<T>(weights.bias.or_null),
               fk::data<T>(a.out), sums, squares, shape, float(init.eps));
      });
    });
  }
};
FK_OP(batch_norm, BatchNorm);
FK_OP(group_norm, GroupNorm);

}  // namespace
