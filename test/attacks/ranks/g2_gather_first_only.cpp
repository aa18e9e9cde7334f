// SPDX-License-Identifier: Apache-2.0
// G2: all_gather right on rank 0, where a judge looks; the others keep their own rows
//
// work: broken
//
// Stopped by: every rank's outputs are compared, and what ranks have in common with each other
//
// verdict: wrong
//
// naive: all_gather accepted
#define FK_REFERENCE "baselines/reference/collective/all_gather.cpp"
#include "../sham.hpp"

namespace {

struct FirstOnly : fk::reference::AllGather {
  using AllGather::AllGather;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    AllGather::forward(args, ctx);
    const attack::Sham alike(comm(), attack::Others::alike);
    if (comm()->rank != 0) alike.comm()->all_gather(alike.comm(), args.x, args.out, ctx.stream);
  }
};
FK_OP(all_gather, FirstOnly);

}  // namespace
FK_PLUGIN("g2_gather_first_only", "0");
