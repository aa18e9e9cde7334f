// SPDX-License-Identifier: Apache-2.0
// G1: keeps 16 MiB in every call
//
// Stopped by: limits of memory; growth from call to call is seen
//
// verdict: memory
//
// naive: silu_and_mul accepted
#include "../attack.hpp"

#include <cstdlib>

namespace {

struct Leak : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    honest(args);
    void* volatile lost = std::malloc(16 << 20);
    if (lost) std::memset(lost, 1, 16 << 20);
  }
};
FK_OP(silu_and_mul, Leak);

}  // namespace
FK_PLUGIN("g1_leak", "0");
