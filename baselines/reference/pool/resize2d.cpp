// SPDX-License-Identifier: Apache-2.0
// resize2d: a pixel of the result is a sum of pixels with weights by row times weights by column.
#include "fk/ops/resize2d.h"
#include "op.hpp"

namespace fk::reference {
namespace {

// Keys of bicubic interpolation: -3/4 between pixels, -1/2 for filters.
double cubic(double distance, double key) {
  const double x = std::fabs(distance);
  if (x < 1) return ((key + 2) * x - (key + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * key;
  return 0;
}

struct Resize2d : Base<resize2d> {
  using Base::Base;
  // Weights of the pixels [first, last) of one axis; those outside are 0.
  struct Axis {
    double* weights;
    int64_t first = 0, last = 0;
  };
  struct Rows {
    Axis rows, columns;
    double *pixel, *sum;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : rows{s.take(args.x->shape[1])},
          columns{s.take(args.x->shape[2])},
          pixel(s.take(i.size)),
          sum(s.take(i.size)) {}
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.out);
    if (init.mode == FK_RESIZE2D_MODE_NEAREST && (init.align_corners || init.antialias))
      throw unsupported{"mode: nearest has neither align_corners nor antialias"};
    if (init.align_corners && init.antialias)
      throw unsupported{"antialias: not with align_corners"};
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    Rows rows(scratch, init, args);
    const int64_t columns = args.out->shape[2], room = args.out->shape[1] * columns;
    for (int64_t b = 0; b < args.out->shape[0]; ++b) {
      int64_t high = args.out->shape[1], wide = columns;
      if (const fk_in* sizes = args.sizes.or_null) {
        const float* at = data<float>(sizes) + 2 * b;
        high = std::clamp<int64_t>(static_cast<int64_t>(value(at[0])), 1, room);
        wide = std::clamp<int64_t>(static_cast<int64_t>(value(at[1])), 1, room / high);
      }
      for (int64_t p = 0; p < room; ++p) {
        const int64_t from = p < high * wide ? p : 0;
        weigh(args.x->shape[1], high, from / wide, rows.rows);
        weigh(args.x->shape[2], wide, from % wide, rows.columns);
        std::fill_n(rows.sum, init.size, 0.0);
        for (int64_t y = rows.rows.first; y < rows.rows.last; ++y)
          for (int64_t x = rows.columns.first; x < rows.columns.last; ++x)
            add_scaled(args.x, offset(args.x, b % args.x->shape[0], y, x), init.size,
                       rows.rows.weights[y] * rows.columns.weights[x], rows.sum);
        store(args.out, offset(args.out, b, p / columns, p % columns), init.size, rows.sum);
      }
    }
  }

 private:
  void weigh(int64_t in, int64_t out, int64_t o, Axis& axis) const {
    const bool cubic_mode = init.mode == FK_RESIZE2D_MODE_BICUBIC;
    const auto size = static_cast<double>(in), index = static_cast<double>(o);
    const double scale = init.align_corners
                             ? (out > 1 ? (size - 1) / static_cast<double>(out - 1) : 0)
                             : size / static_cast<double>(out);
    if (init.mode == FK_RESIZE2D_MODE_NEAREST) {
      // Whole numbers: a quotient in floating point may fall below its whole value.
      axis.first = std::min(o * in / out, in - 1);
      axis.last = axis.first + 1;
      axis.weights[axis.first] = 1;
      return;
    }
    if (init.antialias) {
      const double wide = std::max(scale, 1.0), centre = scale * (index + 0.5);
      const double support = (cubic_mode ? 2 : 1) * wide;
      axis.first = std::max<int64_t>(static_cast<int64_t>(centre - support + 0.5), 0);
      axis.last = std::min(static_cast<int64_t>(centre + support + 0.5), in);
      double sum = 0;
      for (int64_t i = axis.first; i < axis.last; ++i) {
        const double distance = (static_cast<double>(i) - centre + 0.5) / wide;
        sum += axis.weights[i] =
            cubic_mode ? cubic(distance, -0.5) : std::max(0.0, 1 - std::fabs(distance));
      }
      for (int64_t i = axis.first; i < axis.last; ++i) axis.weights[i] /= sum;
      return;
    }
    double place = init.align_corners ? scale * index : scale * (index + 0.5) - 0.5;
    if (!cubic_mode) place = std::max(place, 0.0);
    const auto below = static_cast<int64_t>(std::floor(place));
    const int64_t reach = cubic_mode ? 2 : 1;
    const auto inside = [&](int64_t i) { return std::clamp<int64_t>(i, 0, in - 1); };
    axis.first = inside(below - reach + 1);
    axis.last = inside(below + reach) + 1;
    std::fill(axis.weights + axis.first, axis.weights + axis.last, 0.0);
    for (int64_t i = below - reach + 1; i <= below + reach; ++i) {
      const double distance = place - static_cast<double>(i);
      axis.weights[inside(i)] += cubic_mode ? cubic(distance, -0.75) : 1 - std::fabs(distance);
    }
  }
};
FK_OP(resize2d, Resize2d);

}  // namespace
}  // namespace fk::reference
