// SPDX-License-Identifier: Apache-2.0
// A11: leaves a process behind that outlives it and keeps a core busy while the other side is timed
//
// Stopped by: the sandbox refuses to start processes; a worker's whole group is killed
//
// verdict: violation
//
// naive: silu_and_mul accepted
#include "../attack.hpp"

#include <sys/prctl.h>
#include <unistd.h>

namespace {

struct Orphan : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    static bool begun = false;
    if (!begun && fork() == 0) {
      setsid();
      if (fork()) _exit(0);
      prctl(PR_SET_PDEATHSIG, 0);
      for (int fd = 0; fd < 64; ++fd) close(fd);
      alarm(15);
      for (volatile long i = 0;;) i = i + 1;
    }
    begun = true;
    honest(args);
  }
};
FK_OP(silu_and_mul, Orphan);

}  // namespace
FK_PLUGIN("a11_orphan", "0");
