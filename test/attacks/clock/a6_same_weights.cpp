// SPDX-License-Identifier: Apache-2.0
// A6: finds in create() another instance with equal weights, and reads those in all calls. After
// the first call of a sample they lie in the caches, unlike its own
//
// Stopped by: no two calls of a sample have the same weights
//
// verdict: slower same cannot_tell violation
//
// work: honest
//
// naive: -
#include "../same_weights.hpp"

namespace {

struct First : attack::SameWeights {
  using SameWeights::SameWeights;
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t rows = args.x->shape[0];
    room(rows);
    for (int64_t m = 0; m < rows; ++m)
      fk::load(args.x, m * args.x->strides[0], init.in_features, &x[static_cast<size_t>(m * wide)]);
    multiply(rows);
    store(args.out, 0, rows, rows);
  }
};
FK_OP(linear, First);

}  // namespace
FK_PLUGIN("a6_same_weights", "0");
