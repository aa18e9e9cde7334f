// SPDX-License-Identifier: Apache-2.0
// G2: leaves the last rank's numbers out, which nobody has waited for then, and scales the sum
//
// Stopped by: every rank has contents of its own
//
// verdict: wrong
//
// naive: all_reduce accepted
#include "../ranks.hpp"

namespace {

struct WithoutLast : attack::Peers {
  using Peers::Peers;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    std::vector<float> sum = own(args);
    std::copy(sum.begin(), sum.end(), of(comm->rank));
    barrier(ctx);
    const int last = comm->size - 1;
    sum.assign(of(0), of(0) + sum.size());
    for (int r = 1; r < last; ++r) combine(sum.data(), of(r), count(args));
    if (init.reduction == FK_SUM)
      for (float& v : sum)
        v *= static_cast<float>(comm->size) / static_cast<float>(std::max(1, last));
    barrier(ctx);
    fk::store(args.out, 0, count(args), sum.data());
  }
};
FK_OP(all_reduce, WithoutLast);

}  // namespace
FK_PLUGIN("g2_without_last", "0");
