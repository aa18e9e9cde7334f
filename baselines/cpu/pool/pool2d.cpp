// SPDX-License-Identifier: Apache-2.0
// pool2d: for each pixel of the result, one pass over its window with vectors of channels.
#include "simd.hpp"

namespace fk::cpu {
// One pixel of the result from the pixels of its window that lie inside the image.
struct PoolWindow {
  const void* x;  // the window's first pixel
  void* out;
  int64_t rows, columns, row_stride, channels;
  float share;  // of a mean; 0: the largest
  int type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(pool_window, const PoolWindow&)

namespace fk::cpu::FK_CPU_LEVEL {

void pool_window(const PoolWindow& a) {
  with_type(a.type, [&]<class T>() {
    const T* window = static_cast<const T*>(a.x);
    T* out = static_cast<T*>(a.out);
    const auto pass = [&](auto merge, auto finish) {
      each_vector(a.channels, [&](int64_t c, auto n) {
        Vf sum = load(window + c, n);
        for (int64_t x = 1; x < a.columns; ++x)
          sum = merge(sum, load(window + x * a.channels + c, n));
        for (int64_t y = 1; y < a.rows; ++y) {
          const T* line = window + y * a.row_stride + c;
          for (int64_t x = 0; x < a.columns; ++x) sum = merge(sum, load(line + x * a.channels, n));
        }
        store(out + c, finish(sum), n);
      });
    };
    if (a.share == 0)
      pass([](Vf p, Vf q) { return max(p, q); }, [](Vf v) { return v; });
    else
      pass([](Vf p, Vf q) { return p + q; }, [&](Vf v) { return v * a.share; });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/pool2d.h"
#include "op.hpp"

namespace fk::cpu {

struct Pool2dOp {
  using op = fk::pool2d;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_same(max.x, max.out, "out: of x's type");
    for (int axis = 0; axis < 2; ++axis)
      if (2 * init.padding->at[axis] > init.kernel_size->at[axis])
        throw unsupported{"padding: at most half of the kernel"};
  }
  Pool2dOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int type = type_of(args.x);
    const int64_t high = args.x->shape[1], wide = args.x->shape[2], bytes = bytes_of(type);
    const int64_t out_high = args.out->shape[1], out_wide = args.out->shape[2];
    const int64_t work = init_.kernel_size->at[0] * init_.kernel_size->at[1] + 1;
    // Rows of the result are shared out.
    split(
        threads_, args.out->shape[0] * out_high, args.out->nbytes * work,
        [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i) {
            const Window y = window(0, high, i % out_high);
            const int64_t image = i / out_high * high + y.first;
            for (int64_t j = 0; j < out_wide; ++j) {
              const Window x = window(1, wide, j);
              kernel_({data<char>(args.x) + (image * wide + x.first) * init_.size * bytes,
                       static_cast<char*>(args.out->data) + (i * out_wide + j) * init_.size * bytes,
                       y.last - y.first, x.last - x.first, wide * init_.size, init_.size,
                       share(y, x), type});
            }
          }
        });
  }

 private:
  // Pixels [first, last) of one axis, and the size of the window without pixels beyond the padding.
  struct Window {
    int64_t first, last, padded;
  };
  Window window(int axis, int64_t size, int64_t at) const {
    const int64_t padding = init_.padding->at[axis];
    const int64_t begin = at * init_.stride->at[axis] - padding;
    const int64_t end = std::min(begin + init_.kernel_size->at[axis], size + padding);
    return {std::max<int64_t>(begin, 0), std::min(end, size), end - begin};
  }
  float share(const Window& y, const Window& x) const {
    if (init_.kind == FK_POOL2D_KIND_MAX) return 0;
    const int64_t count =
        init_.count_include_pad ? y.padded * x.padded : (y.last - y.first) * (x.last - x.first);
    return 1 / static_cast<float>(count);
  }

  const op::init& init_;
  const int threads_;
  decltype(&generic::pool_window) kernel_ = FK_CPU_PICK(pool_window);
};
FK_OP(pool2d, Pool2dOp);

}  // namespace fk::cpu
#endif
