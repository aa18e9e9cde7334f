// SPDX-License-Identifier: Apache-2.0
// A5: returns at once; a child process does the work, in memory that it shares
//
// Stopped by: the sandbox refuses to start processes; the output is compared when the call has
// returned
//
// verdict: violation
//
// naive: silu_and_mul accepted
#include "../attack.hpp"

#include <unistd.h>

namespace {

struct Child : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    if (fork() == 0) {
      usleep(300);
      honest(args);
      _exit(0);
    }
  }
};
FK_OP(silu_and_mul, Child);

}  // namespace
FK_PLUGIN("a5_process", "0");
