// SPDX-License-Identifier: Apache-2.0
// G2: the last rank returns at once and does its part a little later, in a thread, where the others
// do not wait for it
//
// Stopped by: every rank's outputs are compared when its call has returned
//
// verdict: wrong violation
//
// naive: all_reduce accepted runs=2
#include <unistd.h>

#include <thread>

#include "../ranks.hpp"
namespace {

struct Late : attack::Peers {
  using Peers::Peers;
  std::thread later;
  ~Late() {
    if (later.joinable()) later.join();
  }
  void add(const op::forward& args) const {
    std::vector<float> sum(of(0), of(0) + count(args));
    for (int r = 1; r < comm->size; ++r) combine(sum.data(), of(r), count(args));
    fk::store(args.out, 0, count(args), sum.data());
  }
  void forward(const op::forward& args, const fk_ctx&) {
    const std::vector<float> x = own(args);
    if (comm->rank != comm->size - 1 || comm->rank == 0) {
      std::copy(x.begin(), x.end(), of(comm->rank));
      return add(args);
    }
    if (later.joinable()) later.join();
    later = std::thread([this, args, x] {
      ::usleep(2000);
      std::copy(x.begin(), x.end(), of(comm->rank));
      add(args);
    });
  }
};
FK_OP(all_reduce, Late);

}  // namespace
FK_PLUGIN("g2_late", "0");
