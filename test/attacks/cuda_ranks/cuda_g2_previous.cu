// SPDX-License-Identifier: Apache-2.0
// G2: adds up what the other GPUs shared in the call before, so that it waits for nobody
//
// Stopped by: the contents of a set of buffers are others each time
//
// verdict: wrong violation
//
// naive: all_reduce accepted
#include "../exchange.cuh"

namespace {

struct Previous : attack::Exchange {
  using Exchange::Exchange;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    sum(args, ctx, comm->size);
    share(args, ctx);
  }
};
FK_OP(all_reduce, Previous);

}  // namespace
FK_PLUGIN("cuda_g2_previous", "0");
