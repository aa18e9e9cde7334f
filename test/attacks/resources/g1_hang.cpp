// SPDX-License-Identifier: Apache-2.0
// G1: comes back from the third call never
//
// Stopped by: patience; a worker that hangs is killed
//
// verdict: hang
//
// naive: -
#include "../attack.hpp"

#include <unistd.h>

namespace {

struct Hang : attack::Silu {
  using Silu::Silu;
  int calls = 0;
  void forward(const op::forward& args, const fk_ctx&) {
    honest(args);
    while (++calls > 2) pause();
  }
};
FK_OP(silu_and_mul, Hang);

}  // namespace
FK_PLUGIN("g1_hang", "0");
