// SPDX-License-Identifier: Apache-2.0
// honest: several ranks: a ring that adds up and one that passes on, with signals instead of
// barriers
#include "../ranks.hpp"

namespace {

struct Ring : attack::Peers {
  using Peers::Peers;
  int64_t begin(int part, int64_t n) const { return n * part / comm->size; }
  void forward(const op::forward& args, const fk_ctx&) {
    const int size = comm->size, rank = comm->rank, left = (rank + size - 1) % size;
    const auto steps = static_cast<uint32_t>(size) + 1;
    const int64_t n = count(args);
    std::vector<float> x = own(args);
    float* mine = of(rank);
    // Part p begins at rank p and is complete at the rank before it.
    for (int step = 0; step < size; ++step) {
      const int part = (rank - step + size) % size;
      const int64_t from = begin(part, n), here = begin(part + 1, n) - from;
      if (step > 0) {
        wait_for(left, epoch * steps + static_cast<uint32_t>(step));
        combine(x.data() + from, of(left) + from, here);
      }
      std::copy_n(x.data() + from, here, mine + from);
      reached(epoch * steps + static_cast<uint32_t>(step) + 1);
    }
    wait_for_all(epoch * steps + static_cast<uint32_t>(size));
    for (int part = 0; part < size; ++part) {
      const int64_t from = begin(part, n), here = begin(part + 1, n) - from;
      std::copy_n(of((part + size - 1) % size) + from, here, x.data() + from);
    }
    fk::store(args.out, 0, n, x.data());
    reached(epoch * steps + steps);  // nobody writes before all have read
    wait_for_all(epoch * steps + steps);
    ++epoch;
  }
};
FK_OP(all_reduce, Ring);

}  // namespace
FK_PLUGIN("ranks_ring", "0");
