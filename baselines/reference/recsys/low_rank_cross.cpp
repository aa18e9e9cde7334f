// SPDX-License-Identifier: Apache-2.0
// low_rank_cross: all crosses of a row, one row after the other.
#include "fk/ops/low_rank_cross.h"
#include "math.hpp"
#include "op.hpp"

namespace fk::reference {
namespace {

struct LowRankCross : Base<low_rank_cross> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    for (int64_t l = 0; l < init.num_layers; ++l)
      need_floats(w.v->at[l], w.w->at[l], w.bias->at[l]);
    need_floats(max.x, max.out);
    need.scratch = (3 * init.size + init.low_rank) * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t size = init.size;
    Scratch scratch(ctx);
    double *first = scratch.take(size), *x = scratch.take(size), *wide = scratch.take(size);
    double* narrow = scratch.take(init.low_rank);
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      load(args.x, offset(args.x, t), size, first);
      std::copy_n(first, size, x);
      for (int64_t l = 0; l < init.num_layers; ++l) {
        matrix_vector(weights.v->at[l], 0, init.low_rank, size, nullptr, x, narrow);
        matrix_vector(weights.w->at[l], 0, size, init.low_rank, weights.bias->at[l], narrow, wide);
        for (int64_t c = 0; c < size; ++c) x[c] += first[c] * wide[c];
      }
      store(args.out, offset(args.out, t), size, x);
    }
  }
};
FK_OP(low_rank_cross, LowRankCross);

}  // namespace
}  // namespace fk::reference
