// SPDX-License-Identifier: Apache-2.0
// linear_all_reduce: x @ weight^T, summed over the ranks in double (SummedProduct in
// collective.hpp).
#include "fk/ops/linear_all_reduce.h"
#include "collective.hpp"

namespace fk::reference {
namespace {

struct LinearAllReduce : SummedProduct<linear_all_reduce> {
  using SummedProduct::SummedProduct;
  void forward(const op::forward& args, const fk_ctx& ctx) { product(args, ctx, 0); }
};
FK_OP(linear_all_reduce, LinearAllReduce);

}  // namespace
}  // namespace fk::reference
