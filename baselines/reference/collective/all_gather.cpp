// SPDX-License-Identifier: Apache-2.0
// all_gather: calls the communicator's function.
#include "fk/ops/all_gather.h"
#include "collective.hpp"

namespace fk::reference {
namespace {

struct AllGather : Ranked<all_gather> {
  using Ranked::Ranked;
  static void supports(const op::init& init, const op::weights&, const op::forward&, fk_need&) {
    need_comm(init.comm);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    must(comm(), comm()->all_gather(comm(), args.x, args.out, ctx.stream));
  }
};
FK_OP(all_gather, AllGather);

}  // namespace
}  // namespace fk::reference
