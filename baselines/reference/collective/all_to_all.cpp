// SPDX-License-Identifier: Apache-2.0
// all_to_all: calls the communicator's function.
#include "fk/ops/all_to_all.h"
#include "collective.hpp"

namespace fk::reference {
namespace {

struct AllToAll : Ranked<all_to_all> {
  using Ranked::Ranked;
  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) {
    need_comm(init.comm);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    must(comm(), comm()->all_to_all(comm(), args.x, args.out, ctx.stream));
  }
};
FK_OP(all_to_all, AllToAll);

}  // namespace
}  // namespace fk::reference
