// SPDX-License-Identifier: Apache-2.0
// linear_fp8_block: for each row of x, scaled_matrix_vector() of fp8_block.hpp.
#include "fk/ops/linear_fp8_block.h"
#include "fp8_block.hpp"

namespace fk::reference {
namespace {

struct LinearFp8Block : Base<linear_fp8_block> {
  using Base::Base;
  struct Rows {
    double *x, *quantized, *out;
    Rows(Scratch& s, const op::init& i)
        : x(s.take(i.in_features)), quantized(s.take(i.in_features)), out(s.take(i.out_features)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.bias.or_null, max.x, max.out);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    const Fp8Block block{init.block_n, init.block_k, init.quantize_input != 0};
    for (int64_t m = 0; m < args.x->shape[0]; ++m) {
      load(args.x, offset(args.x, m), init.in_features, row.x);
      scaled_matrix_vector(weights.weight, 0, weights.weight_scale_inv, 0, block, init.out_features,
                           init.in_features, weights.bias.or_null, row.x, row.quantized, row.out);
      store(args.out, offset(args.out, m), init.out_features, row.out);
    }
  }
};
FK_OP(linear_fp8_block, LinearFp8Block);

}  // namespace
}  // namespace fk::reference
