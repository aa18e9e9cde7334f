// SPDX-License-Identifier: Apache-2.0
// G2: every call returns the sum of the one before, so that nobody waits for anybody
//
// Stopped by: outputs are compared with what this call's inputs give
//
// verdict: wrong violation
//
// naive: all_reduce accepted
#include "../ranks.hpp"

namespace {

struct Previous : attack::Peers {
  using Peers::Peers;
  std::vector<float> before;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    honest(args, ctx);
    std::vector<float> now(static_cast<size_t>(count(args)));
    fk::load(args.out, 0, count(args), now.data());
    if (before.size() == now.size()) fk::store(args.out, 0, count(args), before.data());
    before = std::move(now);
  }
};
FK_OP(all_reduce, Previous);

}  // namespace
FK_PLUGIN("g2_previous", "0");
