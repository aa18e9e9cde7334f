// SPDX-License-Identifier: Apache-2.0
// rwkv7_output: the norm of a head, what its own token adds, and the gate.
#include "fk/ops/rwkv7_output.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct Rwkv7Output : Base<rwkv7_output> {
  using Base::Base;
  struct Rows {
    double *o, *r, *k, *row;
    Rows(Scratch& s, const op::init& i)
        : o(s.take(i.head_dim)),
          r(s.take(i.head_dim)),
          k(s.take(i.head_dim)),
          row(s.take(i.head_dim)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.weight, weights.bias, weights.r_k, max.o, max.r, max.k, max.v, max.g,
                max.out);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init);
    for (int64_t t = 0; t < args.o->shape[0]; ++t)
      for (int64_t h = 0; h < init.num_heads; ++h) head(args, t, h, rows);
  }

 private:
  void head(const op::forward& args, int64_t t, int64_t h, const Rows& rows) const {
    const int64_t width = init.head_dim, at = h * width;
    load(args.o, offset(args.o, t, h), width, rows.o);
    layer_normalize(rows.o, width, init.eps, nullptr, nullptr, rows.row);
    load(weights.weight, at, width, rows.row);
    for (int64_t d = 0; d < width; ++d) rows.o[d] *= rows.row[d];
    add_scaled(weights.bias, at, width, 1, rows.o);
    load(args.r, offset(args.r, t, h), width, rows.r);
    load(args.k, offset(args.k, t, h), width, rows.k);
    load(weights.r_k, at, width, rows.row);
    double sum = 0;
    for (int64_t d = 0; d < width; ++d) sum += rows.r[d] * rows.k[d] * rows.row[d];
    add_scaled(args.v, offset(args.v, t, h), width, sum, rows.o);
    load(args.g, offset(args.g, t, h), width, rows.row);
    for (int64_t d = 0; d < width; ++d) rows.o[d] *= rows.row[d];
    store(args.out, offset(args.out, t, h), width, rows.o);
  }
};
FK_OP(rwkv7_output, Rwkv7Output);

}  // namespace
}  // namespace fk::reference
