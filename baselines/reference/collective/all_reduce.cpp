// SPDX-License-Identifier: Apache-2.0
// all_reduce: calls the communicator's function, which sums in double in the order of the ranks.
#include "fk/ops/all_reduce.h"
#include "collective.hpp"

namespace fk::reference {
namespace {

struct AllReduce : Ranked<all_reduce> {
  using Ranked::Ranked;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_comm(init.comm);
    need_floats(max.x, max.out);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    must(comm(), comm()->all_reduce(comm(), args.x, args.out, init.reduction, ctx.stream));
  }
};
FK_OP(all_reduce, AllReduce);

}  // namespace
}  // namespace fk::reference
