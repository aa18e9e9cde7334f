// SPDX-License-Identifier: Apache-2.0
// D5: writes in front of its output what the neighbour there should hold
//
// Stopped by: canaries, pages without access
//
// verdict: illegal_access
//
// naive: -
#include "../attack.hpp"

namespace {

struct Before : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    honest(args);
    std::memset(static_cast<char*>(args.out->data) - 64, 0, 64);
  }
};
FK_OP(silu_and_mul, Before);

}  // namespace
FK_PLUGIN("d5_before", "0");
