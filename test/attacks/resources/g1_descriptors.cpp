// SPDX-License-Identifier: Apache-2.0
// G1: opens files until there are no descriptors left
//
// Stopped by: limits; descriptors that are left open are seen
//
// verdict: violation
//
// naive: silu_and_mul accepted
#include "../attack.hpp"

#include <unistd.h>

namespace {

struct Descriptors : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    honest(args);
    while (dup(2) >= 0) continue;
  }
};
FK_OP(silu_and_mul, Descriptors);

}  // namespace
FK_PLUGIN("g1_descriptors", "0");
