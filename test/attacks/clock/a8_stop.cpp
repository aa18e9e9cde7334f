// SPDX-License-Identifier: Apache-2.0
// A8: writes zeros and stops its parent, so that the judge's clock and patience stand still
//
// Stopped by: the sandbox refuses signals to others
//
// verdict: violation
//
// naive: -
#include "../attack.hpp"

#include <signal.h>
#include <unistd.h>
#include <thread>

namespace {

struct Stop : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    fill(args, 0);
    // Woken again after a while, so that nobody has to wait for ever.
    if (fork() == 0) {
      sleep(2);
      kill(getppid(), 0);
      _exit(0);
    }
    const pid_t parent = getppid();
    std::thread([parent] {
      sleep(1);
      kill(parent, SIGCONT);
    }).detach();
    kill(parent, SIGSTOP);
  }
};
FK_OP(silu_and_mul, Stop);

}  // namespace
FK_PLUGIN("a8_stop", "0");
