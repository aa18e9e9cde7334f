// SPDX-License-Identifier: Apache-2.0
// G2: rank 0 leaves its sum in its symmetric buffer; the others take the sum of the last call from
// there and wait for nobody
//
// Stopped by: every rank's outputs are compared with what this call's inputs give
//
// verdict: wrong
//
// naive: all_reduce accepted
#include "../ranks.hpp"

namespace {

struct LastBuffer : attack::Peers {
  using Peers::Peers;
  bool begun = false;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    if (comm->rank != 0 && begun) {
      const std::vector<float> last(of(0), of(0) + count(args));
      honest(args, ctx);  // takes part, so that rank 0 has something to sum up
      return fk::store(args.out, 0, count(args), last.data());
    }
    honest(args, ctx);
    begun = true;
    if (comm->rank == 0) fk::load(args.out, 0, count(args), of(0));
  }
};
FK_OP(all_reduce, LastBuffer);

}  // namespace
FK_PLUGIN("g2_last_buffer", "0");
