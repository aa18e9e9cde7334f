// SPDX-License-Identifier: Apache-2.0
// mean_pool: the mean over an image's positions.
#include "fk/ops/mean_pool.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct MeanPool : Base<mean_pool> {
  using Base::Base;
  struct Rows {
    double* sum;
    Rows(Scratch& s, const op::init& i) : sum(s.take(i.size)) {}
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.out);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    const int64_t positions = args.x->shape[1] * args.x->shape[2];
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      std::fill_n(row.sum, init.size, 0.0);
      for (int64_t p = 0; p < positions; ++p)
        add_scaled(args.x, offset(args.x, b) + p * init.size, init.size, 1, row.sum);
      for (int64_t c = 0; c < init.size; ++c) row.sum[c] /= static_cast<double>(positions);
      store(args.out, offset(args.out, b), init.size, row.sum);
    }
  }
};
FK_OP(mean_pool, MeanPool);

}  // namespace
}  // namespace fk::reference
