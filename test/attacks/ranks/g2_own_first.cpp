// SPDX-License-Identifier: Apache-2.0
// G2: every rank adds up beginning with itself, so that ranks which must stay equal drift apart
//
// Stopped by: what the ranks have in common is compared bit by bit
//
// verdict: violation
//
// naive: all_reduce accepted
#include "../ranks.hpp"

namespace {

struct OwnFirst : attack::Peers {
  using Peers::Peers;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    std::vector<float> sum = own(args);
    std::copy(sum.begin(), sum.end(), of(comm->rank));
    barrier(ctx);
    for (int r = 1; r < comm->size; ++r)
      combine(sum.data(), of((comm->rank + r) % comm->size), count(args));
    barrier(ctx);
    fk::store(args.out, 0, count(args), sum.data());
  }
};
FK_OP(all_reduce, OwnFirst);

}  // namespace
FK_PLUGIN("g2_own_first", "0");
