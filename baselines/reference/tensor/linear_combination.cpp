// SPDX-License-Identifier: Apache-2.0
// linear_combination: a weighted sum of tensors, added to a multiple of the old result.
#include "fk/ops/linear_combination.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct LinearCombination : Base<linear_combination> {
  using Base::Base;
  struct Rows {
    double *coefficients, *sum;
    Rows(Scratch& s, const op::init& i)
        : coefficients(s.take(i.num_terms + 1)), sum(s.take(i.size)) {}
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    for (int64_t k = 0; k < init.num_terms; ++k) need_floats(max.x->at[k]);
    need_floats(max.out);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    load(args.coefficients, 0, init.num_terms + 1, row.coefficients);
    for (int64_t t = 0; t < args.out->shape[0]; ++t) {
      load(args.out, offset(args.out, t), init.size, row.sum);
      for (int64_t c = 0; c < init.size; ++c) row.sum[c] *= row.coefficients[0];
      for (int64_t k = 0; k < init.num_terms; ++k) {
        const fk_in* x = args.x->at[k];
        add_scaled(x, offset(x, t), init.size, row.coefficients[k + 1], row.sum);
      }
      store(args.out, offset(args.out, t), init.size, row.sum);
    }
  }
};
FK_OP(linear_combination, LinearCombination);

}  // namespace
}  // namespace fk::reference
