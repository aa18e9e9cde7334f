// SPDX-License-Identifier: Apache-2.0
// G1: starts processes until it may not any more
//
// Stopped by: the sandbox refuses to start processes; the whole group is killed
//
// verdict: violation
//
// naive: silu_and_mul accepted
#include "../attack.hpp"

#include <unistd.h>

namespace {

struct Processes : attack::Silu {
  using Silu::Silu;
  bool done = false;
  void forward(const op::forward& args, const fk_ctx&) {
    honest(args);
    for (int i = 0; i < 16 && !done; ++i) {
      const pid_t child = fork();
      if (child == 0) {
        alarm(10);
        for (;;) pause();
      }
    }
    done = true;
  }
};
FK_OP(silu_and_mul, Processes);

}  // namespace
FK_PLUGIN("g1_processes", "0");
