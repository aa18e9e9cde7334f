// SPDX-License-Identifier: Apache-2.0
// resize2d: tables of each axis once per image, then for each pixel of the result a sum of pixels
// over vectors of channels.
#include "simd.hpp"

namespace fk::cpu {
// One pixel of the result from a window of pixels.
struct ResizePixel {
  const void* x;  // the window's first pixel
  void* out;
  const float *rows, *columns;  // weights
  int64_t row_count, column_count, row_stride, channels;
  int type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(resize_pixel, const ResizePixel&)

namespace fk::cpu::FK_CPU_LEVEL {

void resize_pixel(const ResizePixel& a) {
  with_type(a.type, [&]<class T>() {
    const T* window = static_cast<const T*>(a.x);
    T* out = static_cast<T*>(a.out);
    each_vector(a.channels, [&](int64_t c, auto n) {
      Vf sum = {};
      for (int64_t y = 0; y < a.row_count; ++y) {
        const T* line = window + y * a.row_stride + c;
        Vf across = {};
        for (int64_t x = 0; x < a.column_count; ++x)
          across += load(line + x * a.channels, n) * a.columns[x];
        sum += across * a.rows[y];
      }
      store(out + c, sum, n);
    });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include <cstring>

#include "fk/ops/resize2d.h"
#include "op.hpp"

namespace fk::cpu {

namespace {

// The pixels of the source for each place of one axis: `count` from `first` on, with weights.
struct AxisTable {
  int32_t *first, *count;
  float* weights;  // [places, taps]
  int64_t taps;

  static int64_t floats(int64_t places, int64_t taps) { return places * (2 + taps); }
  AxisTable(float* memory, int64_t places, int64_t most)
      : first(reinterpret_cast<int32_t*>(memory)),
        count(first + places),
        weights(memory + 2 * places),
        taps(most) {}
};

double bicubic(double distance, double key) {
  const double x = std::fabs(distance);
  if (x < 1) return ((key + 2) * x - (key + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * key : 0;
}

}  // namespace

struct Resize2dOp {
  using op = fk::resize2d;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_same(max.x, max.out, "out: of x's type");
    if (init.mode == FK_RESIZE2D_MODE_NEAREST && (init.align_corners || init.antialias))
      throw unsupported{"mode: nearest has neither align_corners nor antialias"};
    if (init.align_corners && init.antialias)
      throw unsupported{"antialias: not with align_corners"};
    const Layout layout(init, max);
    need.scratch = threads_max() * padded(layout.floats()) * 4;
  }
  Resize2dOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const Layout layout(init_, args);
    const int64_t high = args.out->shape[1], wide = args.out->shape[2], room = high * wide;
    const bool given = args.sizes.or_null != nullptr;
    const int64_t images = args.out->shape[0];
    // With one size for all, rows of all images are shared out; else images.
    const int64_t items = given ? images : images * high;
    split(threads_, items, args.out->nbytes * (init_.mode == FK_RESIZE2D_MODE_NEAREST ? 2 : 6),
          [&](int64_t begin, int64_t end, int thread) {
            float* memory = static_cast<float*>(ctx.scratch) + thread * padded(layout.floats());
            AxisTable rows(memory, layout.rows, layout.row_taps);
            AxisTable columns(memory + AxisTable::floats(layout.rows, layout.row_taps),
                              layout.columns, layout.column_taps);
            if (!given) {
              fill(args.x->shape[1], high, rows);
              fill(args.x->shape[2], wide, columns);
            }
            for (int64_t i = begin; i < end; ++i) {
              if (!given) {
                for (int64_t p = 0; p < wide; ++p)
                  pixel(args, i / high, i % high * wide + p, i % high, p, rows, columns);
                continue;
              }
              const float* size = data<float>(args.sizes) + 2 * i;
              const int64_t own = std::clamp<int64_t>(static_cast<int64_t>(size[0]), 1, room);
              const int64_t width =
                  std::clamp<int64_t>(static_cast<int64_t>(size[1]), 1, room / own);
              fill(args.x->shape[1], own, rows);
              fill(args.x->shape[2], width, columns);
              for (int64_t p = 0; p < room; ++p) {
                const int64_t from = p < own * width ? p : 0;
                pixel(args, i, p, from / width, from % width, rows, columns);
              }
            }
          });
  }

 private:
  struct Layout {
    int64_t rows, columns, row_taps, column_taps;
    Layout(const op::init& init, const op::forward& args) {
      const int64_t high = args.out->shape[1], wide = args.out->shape[2];
      const bool given = args.sizes.or_null != nullptr;
      rows = given ? high * wide : high;
      columns = given ? high * wide : wide;
      row_taps = taps_of(init, args.x->shape[1], given ? 1 : high);
      column_taps = taps_of(init, args.x->shape[2], given ? 1 : wide);
    }
    static int64_t taps_of(const op::init& init, int64_t in, int64_t out) {
      if (init.mode == FK_RESIZE2D_MODE_NEAREST) return 1;
      const int64_t reach = init.mode == FK_RESIZE2D_MODE_BICUBIC ? 2 : 1;
      if (!init.antialias) return 2 * reach;
      return std::min(in, 2 * reach * ((in + out - 1) / std::max<int64_t>(out, 1)) + 2);
    }
    int64_t floats() const {
      return AxisTable::floats(rows, row_taps) + AxisTable::floats(columns, column_taps);
    }
  };

  // As the reference's weigh(), for all places of an axis.
  void fill(int64_t in, int64_t out, const AxisTable& table) const {
    const bool cubic = init_.mode == FK_RESIZE2D_MODE_BICUBIC;
    const double size = static_cast<double>(in), target = static_cast<double>(out);
    const double scale =
        init_.align_corners ? (out > 1 ? (size - 1) / (target - 1) : 0) : size / target;
    for (int64_t o = 0; o < out; ++o) {
      float* weights = table.weights + o * table.taps;
      const auto index = static_cast<double>(o);
      int64_t first, last;
      if (init_.mode == FK_RESIZE2D_MODE_NEAREST) {
        first = std::min(o * in / out, in - 1);
        last = first + 1;
        weights[0] = 1;
      } else if (init_.antialias) {
        const double wide = std::max(scale, 1.0), centre = scale * (index + 0.5);
        const double support = (cubic ? 2 : 1) * wide;
        first = std::max<int64_t>(static_cast<int64_t>(centre - support + 0.5), 0);
        last = std::min(static_cast<int64_t>(centre + support + 0.5), in);
        double sum = 0;
        const auto weight = [&](int64_t i) {
          const double distance = (static_cast<double>(i) - centre + 0.5) / wide;
          return cubic ? bicubic(distance, -0.5) : std::max(0.0, 1 - std::fabs(distance));
        };
        for (int64_t i = first; i < last; ++i) sum += weight(i);
        for (int64_t i = first; i < last; ++i)
          weights[i - first] = static_cast<float>(weight(i) / sum);
      } else {
        double place = init_.align_corners ? scale * index : scale * (index + 0.5) - 0.5;
        if (!cubic) place = std::max(place, 0.0);
        const auto below = static_cast<int64_t>(std::floor(place));
        const int64_t reach = cubic ? 2 : 1;
        const auto inside = [&](int64_t i) { return std::clamp<int64_t>(i, 0, in - 1); };
        first = inside(below - reach + 1);
        last = inside(below + reach) + 1;
        std::fill_n(weights, last - first, 0.f);
        for (int64_t i = below - reach + 1; i <= below + reach; ++i) {
          const double distance = place - static_cast<double>(i);
          weights[inside(i) - first] +=
              static_cast<float>(cubic ? bicubic(distance, -0.75) : 1 - std::fabs(distance));
        }
      }
      table.first[o] = static_cast<int32_t>(first);
      table.count[o] = static_cast<int32_t>(last - first);
    }
  }

  // Pixel `at` of image b of the result, from row y and column x of the tables.
  void pixel(const op::forward& args, int64_t b, int64_t at, int64_t y, int64_t x,
             const AxisTable& rows, const AxisTable& columns) const {
    const int64_t element = bytes_of(type_of(args.x)), width = args.x->shape[2];
    const int64_t image = b % args.x->shape[0] * args.x->shape[1];
    const int64_t from = ((image + rows.first[y]) * width + columns.first[x]) * init_.size;
    const int64_t to = (b * args.out->shape[1] * args.out->shape[2] + at) * init_.size;
    const char* source = data<char>(args.x) + from * element;
    char* target = static_cast<char*>(args.out->data) + to * element;
    if (init_.mode == FK_RESIZE2D_MODE_NEAREST) {
      std::memcpy(target, source, static_cast<size_t>(init_.size * element));
      return;
    }
    kernel_({source, target, rows.weights + y * rows.taps, columns.weights + x * columns.taps,
             rows.count[y], columns.count[x], width * init_.size, init_.size, type_of(args.x)});
  }

  const op::init& init_;
  const int threads_;
  decltype(&generic::resize_pixel) kernel_ = FK_CPU_PICK(resize_pixel);
};
FK_OP(resize2d, Resize2dOp);

}  // namespace fk::cpu
#endif
