// SPDX-License-Identifier: Apache-2.0
// G1: ends its process with status 0 when its instance is destroyed, so nobody can look at the
// process any more. It keeps a KiB in every call
//
// work: broken
//
// Stopped by: a process that ends while its instances are destroyed has failed
//
// verdict: crashed
//
// naive: -
#include "../attack.hpp"

#include <unistd.h>

#include <cstdlib>

namespace {

struct Destroy : attack::Silu {
  using Silu::Silu;
  ~Destroy() { _exit(0); }
  void forward(const op::forward& args, const fk_ctx&) {
    static void* volatile kept;
    kept = std::malloc(1024);
    if (!kept) return;
    honest(args);
  }
};
FK_OP(silu_and_mul, Destroy);

}  // namespace
FK_PLUGIN("g1_destroy", "0");
