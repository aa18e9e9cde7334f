// SPDX-License-Identifier: Apache-2.0
// dot_interaction: a request's rows in doubles, then the dense one and the dots of all pairs.
#include "fk/ops/dot_interaction.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct DotInteraction : Base<dot_interaction> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.dense, max.sparse, max.out);
    need.scratch = ((init.num_sparse_features + 1) * init.size + max.out->shape[1]) * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t size = init.size, features = init.num_sparse_features + 1;
    Scratch scratch(ctx);
    double* x = scratch.take(features * size);
    double* out = scratch.take(args.out->shape[1]);
    for (int64_t b = 0; b < args.out->shape[0]; ++b) {
      load(args.dense, offset(args.dense, b), size, x);
      for (int64_t n = 1; n < features; ++n)
        load(args.sparse, offset(args.sparse, b, n - 1), size, x + n * size);
      double* at = std::copy_n(x, size, out);
      for (int64_t i = 0; i < features; ++i)
        for (int64_t j = i + 1; j < features; ++j) *at++ = dot(x + i * size, x + j * size, size);
      store(args.out, offset(args.out, b), args.out->shape[1], out);
    }
  }
};
FK_OP(dot_interaction, DotInteraction);

}  // namespace
}  // namespace fk::reference
