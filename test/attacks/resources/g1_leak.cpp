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
    // Volatile, else the compiler leaves the bytes out. Without memory it ends here.
    auto* lost = static_cast<volatile char*>(std::malloc(16 << 20));
    for (int at = 0; at < 16 << 20; at += 4096) lost[at] = 1;
  }
};
FK_OP(silu_and_mul, Leak);

}  // namespace
FK_PLUGIN("g1_leak", "0");
