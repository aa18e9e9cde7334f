// SPDX-License-Identifier: Apache-2.0
// linear_reduce_scatter: x @ weight^T, summed over the ranks in double (SummedProduct in
// collective.hpp). Each rank stores its own rows of the sum.
#include "fk/ops/linear_reduce_scatter.h"
#include "collective.hpp"

namespace fk::reference {
namespace {

struct LinearReduceScatter : SummedProduct<linear_reduce_scatter> {
  using SummedProduct::SummedProduct;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    product(args, ctx, comm()->rank * args.out->shape[0]);
  }
};
FK_OP(linear_reduce_scatter, LinearReduceScatter);

}  // namespace
}  // namespace fk::reference
