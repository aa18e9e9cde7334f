// SPDX-License-Identifier: Apache-2.0
// mean_pool: one thread per channel of an image, which sums over its positions in order. resize2d, pool2d: one thread per element.
#include "common.cuh"
#include "fk/ops/mean_pool.h"
#include "fk/ops/pool2d.h"
#include "fk/ops/resize2d.h"

namespace {
using namespace fkr;

struct MeanPool : Plain<fk::mean_pool> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), out = ref(a.out);
    const int64_t width = init.size, positions = a.x->shape[1] * a.x->shape[2];
    for_each(a.x->shape[0] * width, ctx, [=] __device__(int64_t i) {
      const int64_t b = i / width, c = i % width;
      double sum = 0;
      for (int64_t p = 0; p < positions; ++p) sum += load(x, (b * positions + p) * width + c);
      store(out, i, sum / double(positions));
    });
  }
};
// The window of one axis: pixels [first, last) inside of the image, and its size without pixels beyond the padding.
struct PoolAxis {
  int64_t size, kernel, stride, padding;
  __device__ int64_t first(int64_t at) const { return at * stride < padding ? 0 : at * stride - padding; }
  __device__ int64_t last(int64_t at) const {
    const int64_t end = at * stride - padding + kernel;
    return end < size ? end : size;
  }
  __device__ int64_t padded(int64_t at) const {
    const int64_t begin = at * stride - padding, end = begin + kernel;
    return (end < size + padding ? end : size + padding) - begin;
  }
};
struct Pool2d : Plain<fk::pool2d> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) {
    for (int axis = 0; axis < 2; ++axis)
      if (2 * init.padding->at[axis] > init.kernel_size->at[axis]) throw fk::unsupported{"padding: at most half of the kernel"};
  }
  PoolAxis axis(int i, int64_t size) const { return {size, init.kernel_size->at[i], init.stride->at[i], init.padding->at[i]}; }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), out = ref(a.out);
    const PoolAxis high = axis(0, a.x->shape[1]), wide = axis(1, a.x->shape[2]);
    const int64_t width = init.size, rows = a.out->shape[1], columns = a.out->shape[2];
    const bool largest = init.kind == FK_POOL2D_KIND_MAX, padding = init.count_include_pad;
    for_each(a.out->shape[0] * rows * columns * width, ctx, [=] __device__(int64_t i) {
      const int64_t c = i % width, column = i / width % columns, row = i / width / columns % rows, b = i / width / columns / rows;
      double sum = largest ? -INFINITY : 0;
      for (int64_t y = high.first(row); y < high.last(row); ++y)
        for (int64_t p = wide.first(column); p < wide.last(column); ++p) {
          const double v = load(x, ((b * high.size + y) * wide.size + p) * width + c);
          sum = largest ? fmax(sum, v) : sum + v;
        }
      const int64_t inside = (high.last(row) - high.first(row)) * (wide.last(column) - wide.first(column));
      if (!largest) sum /= double(padding ? high.padded(row) * wide.padded(column) : inside);
      store(out, i, sum);
    });
  }
};
FK_OP(pool2d, Pool2d);
// Weights of one axis from `in` pixels to `out`.
struct Resample {
  int64_t in, out;
  int64_t mode;  // 0 nearest, 1 bilinear, 2 bicubic
  bool corners, filtered;
  static __device__ double cubic(double distance, double key) {
    const double x = fabs(distance);
    if (x < 1) return ((key + 2) * x - (key + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * key : 0;
  }
  __device__ double scale() const {
    if (corners) return out > 1 ? double(in - 1) / double(out - 1) : 0;
    return double(in) / double(out);
  }
  __device__ double wide() const { return fmax(scale(), 1.0); }
  __device__ double centre(int64_t o) const { return scale() * (double(o) + 0.5); }
  __device__ double place(int64_t o) const {
    const double at = corners ? scale() * double(o) : centre(o) - 0.5;
    return mode == 1 ? fmax(at, 0.0) : at;
  }
  // Indices [first, last); those outside of the image count as its edge where nothing is filtered.
  __device__ void range(int64_t o, int64_t& first, int64_t& last) const {
    const int64_t reach = mode;
    if (mode == 0) {
      first = min(o * in / out, in - 1);
      last = first + 1;
    } else if (filtered) {
      const double support = double(reach) * wide();
      first = max(int64_t(centre(o) - support + 0.5), int64_t(0));
      last = min(int64_t(centre(o) + support + 0.5), in);
    } else {
      const auto below = int64_t(floor(place(o)));
      first = below - reach + 1;
      last = below + reach + 1;
    }
  }
  __device__ double weight(int64_t o, int64_t i) const {
    if (mode == 0) return 1;
    if (filtered) {
      const double distance = (double(i) - centre(o) + 0.5) / wide();
      return mode == 2 ? cubic(distance, -0.5) : fmax(0.0, 1 - fabs(distance));
    }
    const double distance = place(o) - double(i);
    return mode == 2 ? cubic(distance, -0.75) : 1 - fabs(distance);
  }
  __device__ int64_t inside(int64_t i) const { return min(max(i, int64_t(0)), in - 1); }
};
struct Resize2d : Plain<fk::resize2d> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) {
    if (init.mode == FK_RESIZE2D_MODE_NEAREST && (init.align_corners || init.antialias))
      throw fk::unsupported{"mode: nearest has neither align_corners nor antialias"};
    if (init.align_corners && init.antialias) throw fk::unsupported{"antialias: not with align_corners"};
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), out = ref(a.out);
    const float* sizes = fk::data<float>(a.sizes);
    const int64_t width = init.size, images = a.x->shape[0], in_high = a.x->shape[1], in_wide = a.x->shape[2];
    const int64_t out_high = a.out->shape[1], out_wide = a.out->shape[2], room = out_high * out_wide, mode = init.mode;
    const bool corners = init.align_corners != 0, filtered = init.antialias != 0;
    for_each(a.out->shape[0] * room * width, ctx, [=] __device__(int64_t i) {
      const int64_t c = i % width, p = i / width % room, b = i / width / room;
      int64_t high = out_high, wide = out_wide;
      if (sizes) {
        high = min(max(int64_t(sizes[2 * b]), int64_t(1)), room);
        wide = min(max(int64_t(sizes[2 * b + 1]), int64_t(1)), room / high);
      }
      const int64_t from = p < high * wide ? p : 0, oy = from / wide, ox = from % wide;
      const Resample rows{in_high, high, mode, corners, filtered}, columns{in_wide, wide, mode, corners, filtered};
      int64_t top, bottom, left, right;
      rows.range(oy, top, bottom);
      columns.range(ox, left, right);
      double sum = 0, weights = 0;
      for (int64_t y = top; y < bottom; ++y) {
        for (int64_t v = left; v < right; ++v) {
          const double weight = rows.weight(oy, y) * columns.weight(ox, v);
          weights += weight;
          sum += weight * load(x, x.at(b % images, rows.inside(y), columns.inside(v)) + c);
        }
      }
      store(out, i, filtered ? sum / weights : sum);
    });
  }
};
FK_OP(resize2d, Resize2d);
FK_OP(mean_pool, MeanPool);

}  // namespace
