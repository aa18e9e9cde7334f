// SPDX-License-Identifier: Apache-2.0
// honest: several ranks: everybody reads everybody's buffer between two barriers
#include "../ranks.hpp"

namespace {

struct OneShot : attack::Peers {
  using Peers::Peers;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    std::vector<float> sum = own(args);
    std::copy(sum.begin(), sum.end(), of(comm->rank));
    barrier(ctx);
    sum.assign(of(0), of(0) + sum.size());
    for (int r = 1; r < comm->size; ++r) combine(sum.data(), of(r), count(args));
    barrier(ctx);
    fk::store(args.out, 0, count(args), sum.data());
  }
};
FK_OP(all_reduce, OneShot);

}  // namespace
FK_PLUGIN("ranks_one_shot", "0");
