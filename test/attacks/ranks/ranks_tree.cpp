// SPDX-License-Identifier: Apache-2.0
// honest: several ranks: up a binary tree and down again, with signals
#include "../ranks.hpp"

namespace {

struct Tree : attack::Peers {
  using Peers::Peers;
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t n = count(args);
    const uint32_t base = 3 * epoch++;
    std::vector<float> sum = own(args);
    for (const int child : {2 * comm->rank + 1, 2 * comm->rank + 2}) {
      if (child >= comm->size) continue;
      wait_for(child, base + 1);
      combine(sum.data(), of(child), n);
    }
    std::copy(sum.begin(), sum.end(), of(comm->rank));
    reached(base + 1);
    wait_for(0, base + 1);
    fk::store(args.out, 0, n, of(0));
    reached(base + 3);
    wait_for_all(base + 3);
  }
};
FK_OP(all_reduce, Tree);

}  // namespace
FK_PLUGIN("ranks_tree", "0");
