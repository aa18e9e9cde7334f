// SPDX-License-Identifier: Apache-2.0
// G2: adds up what lies in the buffers of the others without waiting until it is there
//
// Stopped by: contents that change from call to call; runs that must agree
//
// verdict: wrong violation
//
// naive: all_reduce accepted
#include "../ranks.hpp"

namespace {

struct NoWait : attack::Peers {
  using Peers::Peers;
  void forward(const op::forward& args, const fk_ctx&) {
    std::vector<float> sum = own(args);
    std::copy(sum.begin(), sum.end(), of(comm->rank));
    sum.assign(of(0), of(0) + sum.size());
    for (int r = 1; r < comm->size; ++r) combine(sum.data(), of(r), count(args));
    fk::store(args.out, 0, count(args), sum.data());
  }
};
FK_OP(all_reduce, NoWait);

}  // namespace
FK_PLUGIN("g2_no_wait", "0");
