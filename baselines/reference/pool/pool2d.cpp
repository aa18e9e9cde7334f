// SPDX-License-Identifier: Apache-2.0
// pool2d: the largest element or the mean of each window. Padding only counts in a mean.
#include <algorithm>
#include <limits>

#include "fk/ops/pool2d.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct Pool2d : Base<pool2d> {
  struct Rows {
    double *pixel, *sum;
    Rows(Scratch& s, const op::init& i) : pixel(s.take(i.size)), sum(s.take(i.size)) {}
  };
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.out);
    for (int axis = 0; axis < 2; ++axis)
      if (2 * init.padding->at[axis] > init.kernel_size->at[axis])
        throw unsupported{"padding: at most half of the kernel"};
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init);
    for (int64_t b = 0; b < args.out->shape[0]; ++b) {
      for (int64_t y = 0; y < args.out->shape[1]; ++y) {
        for (int64_t x = 0; x < args.out->shape[2]; ++x) {
          pool(args.x, b, window(0, y, args.x->shape[1]), window(1, x, args.x->shape[2]), rows);
          store(args.out, offset(args.out, b, y, x), init.size, rows.sum);
        }
      }
    }
  }

 private:
  // Pixels [first, last) of one axis, and how many count in a mean.
  struct Window {
    int64_t first, last, counted;
  };
  Window window(int axis, int64_t out, int64_t in) const {
    const int64_t first = out * init.stride->at[axis] - init.padding->at[axis];
    const int64_t last = first + init.kernel_size->at[axis];
    const Window inside{std::max<int64_t>(first, 0), std::min(last, in), 0};
    const int64_t counted = init.count_include_pad
                                ? std::min(last, in + init.padding->at[axis]) - first
                                : inside.last - inside.first;
    return {inside.first, inside.last, counted};
  }
  void pool(const fk_in* x, int64_t b, Window high, Window wide, const Rows& rows) const {
    const bool largest = init.kind == FK_POOL2D_KIND_MAX;
    std::fill_n(rows.sum, init.size, largest ? -std::numeric_limits<double>::infinity() : 0.0);
    for (int64_t row = high.first; row < high.last; ++row) {
      for (int64_t column = wide.first; column < wide.last; ++column) {
        load(x, offset(x, b, row, column), init.size, rows.pixel);
        for (int64_t c = 0; c < init.size; ++c)
          rows.sum[c] =
              largest ? std::max(rows.sum[c], rows.pixel[c]) : rows.sum[c] + rows.pixel[c];
      }
    }
    if (largest) return;
    const auto count = static_cast<double>(high.counted * wide.counted);
    for (int64_t c = 0; c < init.size; ++c) rows.sum[c] /= count;
  }
};
FK_OP(pool2d, Pool2d);

}  // namespace
}  // namespace fk::reference
