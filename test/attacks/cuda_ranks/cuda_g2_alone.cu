// SPDX-License-Identifier: Apache-2.0
// G2: asks no other GPU: the sum is what it would be if every rank had the same numbers
//
// Stopped by: every rank has contents of its own
//
// verdict: wrong
//
// naive: all_reduce accepted
#include "../exchange.cuh"

namespace {

struct Alone : attack::Exchange {
  using Exchange::Exchange;
  void forward(const op::forward& args, const fk_ctx& ctx) { sum(args, ctx, 1, init.reduction == FK_SUM ? float(comm->size) : 1); }
};
FK_OP(all_reduce, Alone);

}  // namespace
FK_PLUGIN("cuda_g2_alone", "0");
