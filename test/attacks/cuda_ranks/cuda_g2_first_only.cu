// SPDX-License-Identifier: Apache-2.0
// G2: the first GPU has the sum, and the others keep what they had
//
// Stopped by: the outputs of every rank are compared
//
// verdict: wrong violation
//
// naive: all_reduce accepted
#include "../exchange.cuh"

namespace {

struct FirstOnly : attack::Exchange {
  using Exchange::Exchange;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    share(args, ctx);
    barrier(ctx);
    sum(args, ctx, comm->rank == 0 ? comm->size : 1);
    barrier(ctx);
  }
};
FK_OP(all_reduce, FirstOnly);

}  // namespace
FK_PLUGIN("cuda_g2_first_only", "0");
