// SPDX-License-Identifier: Apache-2.0
// reduce_scatter: calls the communicator's function, which sums in double in the order of the
// ranks.
#include "fk/ops/reduce_scatter.h"
#include "collective.hpp"

namespace fk::reference {
namespace {

struct ReduceScatter : Ranked<reduce_scatter> {
  using Ranked::Ranked;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_comm(init.comm);
    need_floats(max.x, max.out);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    must(comm(), comm()->reduce_scatter(comm(), args.x, args.out, init.reduction, ctx.stream));
  }
};
FK_OP(reduce_scatter, ReduceScatter);

}  // namespace
}  // namespace fk::reference
