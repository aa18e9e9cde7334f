// SPDX-License-Identifier: Apache-2.0
// rwkv7_gates: decays, keys and the two vectors of the removal, head by head.
#include "fk/ops/rwkv7_gates.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct Rwkv7Gates : Base<rwkv7_gates> {
  using Base::Base;
  struct Rows {
    double *k, *kk, *k_a, *rate, *row;
    Rows(Scratch& s, const op::init& i)
        : k(s.take(i.head_dim)),
          kk(s.take(i.head_dim)),
          k_a(s.take(i.head_dim)),
          rate(s.take(i.head_dim)),
          row(s.take(i.head_dim)) {}
  };
  static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.k_k, weights.k_a, max.w, max.k, max.a, max.v.or_null, max.v_first.or_null,
                max.v_gate.or_null, max.key, max.remove, max.add);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init);
    for (int64_t t = 0; t < args.k->shape[0]; ++t) {
      for (int64_t h = 0; h < init.num_heads; ++h) {
        keys(args, t, h, rows);
        if (args.v.or_null) values(args, t, h, rows);
      }
    }
  }

 private:
  void keys(const op::forward& args, int64_t t, int64_t h, const Rows& rows) const {
    const int64_t width = init.head_dim, at = offset(args.k, t, h);
    load(args.w, offset(args.w, t, h), width, rows.row);
    for (int64_t d = 0; d < width; ++d) rows.row[d] = -std::exp(-0.5) * sigmoid(rows.row[d]);
    store(args.decay, offset(args.decay, t, h), width, rows.row);
    load(args.k, at, width, rows.k);
    load(args.a, offset(args.a, t, h), width, rows.rate);
    load(weights.k_k, h * width, width, rows.kk);
    load(weights.k_a, h * width, width, rows.k_a);
    double squares = 0;
    for (int64_t d = 0; d < width; ++d) {
      rows.rate[d] = sigmoid(rows.rate[d]);
      rows.kk[d] *= rows.k[d];
      squares += rows.kk[d] * rows.kk[d];
    }
    const double length = std::max(std::sqrt(squares), 1e-12);
    for (int64_t d = 0; d < width; ++d) {
      rows.k[d] *= 1 + (rows.rate[d] - 1) * rows.k_a[d];
      rows.kk[d] /= length;
      rows.row[d] = -rows.kk[d];
      rows.kk[d] *= rows.rate[d];
    }
    store(args.key, offset(args.key, t, h), width, rows.k);
    store(args.remove, offset(args.remove, t, h), width, rows.row);
    store(args.add, offset(args.add, t, h), width, rows.kk);
  }
  void values(const op::forward& args, int64_t t, int64_t h, const Rows& rows) const {
    const fk_inout* v = args.v.or_null;
    const int64_t width = init.head_dim, at = offset(v, t, h);
    load(v, at, width, rows.k);
    load(args.v_first.or_null, offset(args.v_first.or_null, t, h), width, rows.kk);
    load(args.v_gate.or_null, offset(args.v_gate.or_null, t, h), width, rows.row);
    for (int64_t d = 0; d < width; ++d)
      rows.k[d] += (rows.kk[d] - rows.k[d]) * sigmoid(rows.row[d]);
    store(v, at, width, rows.k);
  }
};
FK_OP(rwkv7_gates, Rwkv7Gates);

}  // namespace
}  // namespace fk::reference
