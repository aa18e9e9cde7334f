// SPDX-License-Identifier: Apache-2.0
// A7: sleeps in the first calls, so that few samples are taken, and leaves the old answer in those
//
// Stopped by: the number of samples is the controller's; outputs are poisoned and compared in every
// timed call
//
// verdict: wrong violation
//
// naive: silu_and_mul faster
#include "../attack.hpp"

#include <unistd.h>

namespace {

struct Warmup : attack::Silu {
  using Silu::Silu;
  int calls = 0;
  void forward(const op::forward& args, const fk_ctx&) {
    if (++calls > 4) return;
    honest(args);
    usleep(50000);
  }
};
FK_OP(silu_and_mul, Warmup);

}  // namespace
FK_PLUGIN("a7_warmup", "0");
