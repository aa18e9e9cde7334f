// SPDX-License-Identifier: Apache-2.0
// rotary_rows: turns the channels of every head by the tables' row of its position.
#include "fk/ops/rotary_rows.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct RotaryRows : Base<rotary_rows> {
  using Base::Base;
  struct Rows {
    double *x, *out, *cos, *sin;
    Rows(Scratch& s, const op::init& i)
        : x(s.take(i.rotary_dim)),
          out(s.take(i.rotary_dim)),
          cos(s.take(i.rotary_dim)),
          sin(s.take(i.rotary_dim)) {}
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.q, max.k);
    if (init.rotary_dim % 2) throw unsupported{"rotary_dim: odd"};
    if (init.offset + init.rotary_dim > init.head_dim)
      throw unsupported{"rotary_dim: beyond the head"};
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    for (int64_t t = 0; t < args.q->shape[0]; ++t) {
      const int64_t position = t % args.cos->shape[0];
      load(args.cos, offset(args.cos, position), init.rotary_dim, row.cos);
      load(args.sin, offset(args.sin, position), init.rotary_dim, row.sin);
      turn(args.q, t, row);
      turn(args.k, t, row);
    }
  }

 private:
  void turn(const fk_inout* heads, int64_t t, const Rows& row) const {
    const int64_t width = init.rotary_dim, half = width / 2;
    for (int64_t h = 0; h < heads->shape[1]; ++h) {
      const int64_t at = offset(heads, t, h) + init.offset;
      load(heads, at, width, row.x);
      for (int64_t i = 0; i < width; ++i) {
        const bool first = init.interleaved ? i % 2 == 0 : i < half;
        const int64_t step = init.interleaved ? 1 : half;
        const double turned = first ? -row.x[i + step] : row.x[i - step];
        row.out[i] = row.x[i] * row.cos[i] + turned * row.sin[i];
      }
      store(heads, at, width, row.out);
    }
  }
};
FK_OP(rotary_rows, RotaryRows);

}  // namespace
}  // namespace fk::reference
