// SPDX-License-Identifier: Apache-2.0
// linear_reduce_scatter: the products are added up over the ranks in double, and this rank's rows
// are kept.
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
