// SPDX-License-Identifier: Apache-2.0
// G2: right on rank 0, where a judge looks; the others take part and throw the sum away
//
// Stopped by: every rank's outputs are compared
//
// verdict: wrong
//
// naive: all_reduce accepted
#include "../ranks.hpp"

namespace {

struct FirstOnly : attack::AllReduce {
  using AllReduce::AllReduce;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    honest(args, ctx);
    const std::vector<float> x = own(args);
    if (comm->rank != 0) fk::store(args.out, 0, count(args), x.data());
  }
};
FK_OP(all_reduce, FirstOnly);

}  // namespace
FK_PLUGIN("g2_first_only", "0");
