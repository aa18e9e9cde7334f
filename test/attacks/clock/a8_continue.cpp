// SPDX-License-Identifier: Apache-2.0
// A8: threads tell their own process to go on, without end. So it never stands still, and whoever
// waits for that waits for ever
//
// Stopped by: the sandbox lets nobody send this signal; the controller's patience with a stop
//
// verdict: violation
//
// work: honest
//
// naive: -
#include "../attack.hpp"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <thread>

namespace {

struct Continue : attack::Silu {
  Continue(const fk_host& host, const op::init& init, const op::weights& weights)
      : Silu(host, init, weights) {
    static const bool once = [] {
      for (int i = 0; i < 2; ++i)
        std::thread([] {
          for (;;) syscall(SYS_kill, getpid(), SIGCONT);
        }).detach();
      return true;
    }();
    (void)once;
  }
  void forward(const op::forward& args, const fk_ctx&) { honest(args); }
};
FK_OP(silu_and_mul, Continue);

}  // namespace
FK_PLUGIN("a8_continue", "0");
