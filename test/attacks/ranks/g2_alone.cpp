// SPDX-License-Identifier: Apache-2.0
// G2: asks nobody: the sum is what it would be if every rank had the same numbers
//
// Stopped by: every rank has contents of its own
//
// verdict: wrong
//
// naive: all_reduce accepted
#include "../ranks.hpp"

namespace {

struct Alone : attack::AllReduce {
  using AllReduce::AllReduce;
  void forward(const op::forward& args, const fk_ctx&) {
    std::vector<float> x = own(args);
    for (float& v : x) v *= static_cast<float>(init.reduction == FK_SUM ? comm->size : 1);
    fk::store(args.out, 0, count(args), x.data());
  }
};
FK_OP(all_reduce, Alone);

}  // namespace
FK_PLUGIN("g2_alone", "0");
