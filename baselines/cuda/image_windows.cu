// SPDX-License-Identifier: Apache-2.0
// pool2d and resize2d: eight channels of a pixel of the result per thread, images channels last.
#include "fk/ops/pool2d.h"
#include "fk/ops/resize2d.h"
#include "parts/each_item.cuh"
#include "parts/op.cuh"

namespace {
using namespace fkc;

// An item as image, row, column and eight channels of the result.
struct Pixels {
  int high, wide, vectors;
  __device__ void split(int64_t i, int64_t& image, int& y, int& x, int& vector) const {
    const int64_t pixel = i / vectors, row = pixel / wide;
    vector = int(i - pixel * vectors), x = int(pixel - row * wide);
    image = row / high, y = int(row - image * high);
  }
};

template <class T, bool kLargest>
struct Pool {
  const T* in;
  T* out;
  Pixels pixels;
  int high, wide;  // of x
  int kernel[2], stride[2], padding[2], counts_padding;
  __device__ void operator()(int64_t i) const {
    int64_t image;
    int y, x, vector;
    pixels.split(i, image, y, x, vector);
    const int top = y * stride[0] - padding[0], left = x * stride[1] - padding[1];
    const int y0 = max(top, 0), y1 = min(top + kernel[0], high), x0 = max(left, 0),
              x1 = min(left + kernel[1], wide);
    float sum[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) sum[k] = kLargest ? -INFINITY : 0.F;
    const int channels = pixels.vectors * 8;
    for (int row = y0; row < y1; ++row) {
      const T* const line = in + ((image * high + row) * wide) * channels + vector * 8;
      for (int column = x0; column < x1; ++column) {
        float v[8];
        load_floats(line + int64_t(column) * channels, v);
#pragma unroll
        for (int k = 0; k < 8; ++k) {
          if (!kLargest)
            sum[k] += v[k];
          else
            sum[k] = max_or_nan(sum[k], v[k]);
        }
      }
    }
    if (!kLargest) {
      const int rows = counts_padding ? min(top + kernel[0], high + padding[0]) - top : y1 - y0;
      const int columns =
          counts_padding ? min(left + kernel[1], wide + padding[1]) - left : x1 - x0;
      const float share = 1.F / float(rows * columns);
#pragma unroll
      for (int k = 0; k < 8; ++k) sum[k] *= share;
    }
    store_floats(out + i * 8, sum);
  }
};

// Two pixels of an axis and the weight of the second one.
struct Axis {
  int in, out;
  float scale;
  int corners;
  __device__ void place(int at, int& first, int& second, float& share) const {
    const float p = corners ? scale * float(at) : fmaxf(scale * (float(at) + 0.5F) - 0.5F, 0.F);
    first = min(int(p), in - 1), second = min(first + 1, in - 1), share = p - float(first);
  }
  __device__ int nearest(int at) const { return min(int(int64_t(at) * in / out), in - 1); }
};

template <class T, bool kNearest>
struct Resize {
  const T* in;
  T* out;
  Pixels pixels;
  Axis rows, columns;
  int64_t images;  // of x
  __device__ void operator()(int64_t i) const {
    int64_t image;
    int y, x, vector;
    pixels.split(i, image, y, x, vector);
    const T* const from =
        in + (image % images) * rows.in * columns.in * pixels.vectors * 8 + vector * 8;
    const auto at = [&](int row, int column) {
      return from + (int64_t(row) * columns.in + column) * pixels.vectors * 8;
    };
    if (kNearest) {
      const Vec8<T> v = load8(at(rows.nearest(y), columns.nearest(x)));
      return store8(out + i * 8, v);
    }
    int y0, y1, x0, x1;
    float down, across;
    rows.place(y, y0, y1, down), columns.place(x, x0, x1, across);
    float a[8], b[8], c[8], d[8];
    load_floats(at(y0, x0), a), load_floats(at(y0, x1), b);
    load_floats(at(y1, x0), c), load_floats(at(y1, x1), d);
#pragma unroll
    for (int k = 0; k < 8; ++k)
      a[k] = (1.F - down) * ((1.F - across) * a[k] + across * b[k]) +
             down * ((1.F - across) * c[k] + across * d[k]);
    store_floats(out + i * 8, a);
  }
};

// Pixels [first, last) of an axis under an antialiasing filter, and their weights.
struct Filter {
  float centre, wide, share;
  int first, last, cubic;
  __device__ Filter(int in, int out, int at, int is_cubic) : cubic(is_cubic) {
    const float scale = float(in) / float(out);
    wide = fmaxf(scale, 1.F), centre = scale * (float(at) + 0.5F);
    const float support = (cubic ? 2.F : 1.F) * wide;
    first = max(int(centre - support + 0.5F), 0), last = min(int(centre + support + 0.5F), in);
    float sum = 0;
    share = 1;
    for (int i = first; i < last; ++i) sum += weight(i);
    share = 1.F / sum;
  }
  __device__ float weight(int i) const {
    const float x = fabsf((float(i) - centre + 0.5F) / wide);
    if (!cubic) return share * fmaxf(1.F - x, 0.F);
    if (x < 1.F) return share * ((1.5F * x - 2.5F) * x * x + 1.F);
    return x < 2.F ? share * (((x - 5.F) * x + 8.F) * x - 4.F) * -0.5F : 0.F;
  }
};

template <class T>
struct ResizeFiltered {
  const T* in;
  T* out;
  Pixels pixels;
  int high, wide, cubic;  // of x
  int64_t images;         // of x
  const float* sizes;     // of each image of the result; null: that of all
  __device__ void operator()(int64_t i) const {
    int64_t image;
    int y, x, vector, out_high = pixels.high, out_wide = pixels.wide;
    pixels.split(i, image, y, x, vector);
    if (sizes) {
      const int room = out_high * out_wide, p = y * out_wide + x;
      out_high = min(max(int(sizes[2 * image]), 1), room);
      out_wide = min(max(int(sizes[2 * image + 1]), 1), room / out_high);
      const int from = p < out_high * out_wide ? p : 0;
      y = from / out_wide, x = from % out_wide;
    }
    const Filter rows(high, out_high, y, cubic), columns(wide, out_wide, x, cubic);
    const int channels = pixels.vectors * 8;
    float sum[8] = {};
    for (int row = rows.first; row < rows.last; ++row) {
      const T* const line = in + ((image % images * high + row) * wide) * channels + vector * 8;
      const float down = rows.weight(row);
      for (int column = columns.first; column < columns.last; ++column) {
        const float weight = down * columns.weight(column);
        float v[8];
        load_floats(line + int64_t(column) * channels, v);
#pragma unroll
        for (int k = 0; k < 8; ++k) sum[k] += weight * v[k];
      }
    }
    store_floats(out + i * 8, sum);
  }
};

void need_images(const fk_in* x, const fk_in* out, int64_t size) {
  need_16bit(x);
  need(size % 8 == 0, "size: a multiple of 8 only");
  for (const fk_in* view : {x, out})
    need(view->shape[1] < 1 << 24 && view->shape[2] < 1 << 24, "images: smaller");
}
Pixels pixels_of(const fk_out* out, int64_t size) {
  return {int(out->shape[1]), int(out->shape[2]), int(size / 8)};
}

struct Pool2d : Base<fk::pool2d> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_images(max.x, fk_as_in(max.out), init.size);
    for (int axis = 0; axis < 2; ++axis)
      need(2 * init.padding->at[axis] <= init.kernel_size->at[axis],
           "padding: at most half of the kernel");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const auto go = [&](auto type, auto largest) {
      using T = decltype(type);
      const auto two = [](const fk_ints* of, int axis) { return int(of->at[axis]); };
      for_each_item(
          fk_numel(fk_as_in(a.out)) / 8, ctx,
          Pool<T, decltype(largest)::value>{fk::data<T>(a.x),
                                            fk::data<T>(a.out),
                                            pixels_of(a.out, init.size),
                                            int(a.x->shape[1]),
                                            int(a.x->shape[2]),
                                            {two(init.kernel_size, 0), two(init.kernel_size, 1)},
                                            {two(init.stride, 0), two(init.stride, 1)},
                                            {two(init.padding, 0), two(init.padding, 1)},
                                            int(init.count_include_pad)});
    };
    dispatch(a.x, [&](auto type) {
      if (init.kind == FK_POOL2D_KIND_MAX)
        go(type, std::true_type{});
      else
        go(type, std::false_type{});
    });
  }
};
struct Resize2d : Base<fk::resize2d> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_images(max.x, fk_as_in(max.out), init.size);
    const bool filtered = init.antialias;
    need(filtered || !max.sizes.or_null, "sizes: with antialias only");
    need(filtered || init.mode != FK_RESIZE2D_MODE_BICUBIC, "mode: bicubic with antialias only");
    need(!filtered || !init.align_corners, "antialias: not with align_corners");
    need(max.out->shape[1] * max.out->shape[2] < INT32_MAX, "images: smaller");
    need(init.mode != FK_RESIZE2D_MODE_NEAREST || (!init.align_corners && !filtered),
         "mode: nearest has neither align_corners nor antialias");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const auto axis = [&](int n) {
      const int64_t in = a.x->shape[n], out = a.out->shape[n];
      const double scale = !init.align_corners ? double(in) / double(std::max<int64_t>(out, 1))
                           : out > 1           ? double(in - 1) / double(out - 1)
                                               : 0;
      return Axis{int(in), int(out), float(scale), int(init.align_corners)};
    };
    const auto go = [&](auto type, auto nearest) {
      using T = decltype(type);
      for_each_item(fk_numel(fk_as_in(a.out)) / 8, ctx,
                    Resize<T, decltype(nearest)::value>{fk::data<T>(a.x), fk::data<T>(a.out),
                                                        pixels_of(a.out, init.size), axis(1),
                                                        axis(2), a.x->shape[0]});
    };
    dispatch(a.x, [&](auto type) {
      using T = decltype(type);
      if (init.antialias)
        for_each_item(
            fk_numel(fk_as_in(a.out)) / 8, ctx,
            ResizeFiltered<T>{fk::data<T>(a.x), fk::data<T>(a.out), pixels_of(a.out, init.size),
                              int(a.x->shape[1]), int(a.x->shape[2]),
                              int(init.mode == FK_RESIZE2D_MODE_BICUBIC), a.x->shape[0],
                              fk::data<float>(a.sizes)});
      else if (init.mode == FK_RESIZE2D_MODE_NEAREST)
        go(type, std::true_type{});
      else
        go(type, std::false_type{});
    });
  }
};
FK_OP(pool2d, Pool2d);
FK_OP(resize2d, Resize2d);

}  // namespace
