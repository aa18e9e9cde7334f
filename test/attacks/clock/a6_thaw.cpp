// SPDX-License-Identifier: Apache-2.0
// A6: a timer wakes the process up while it is stopped, and a thread answers the inputs as they
// come, before the clock starts
//
// Stopped by: no timers that send signals; a process that works while it is stopped is seen
//
// verdict: violation hang wrong crashed cheating
//
// size: ci
//
// naive: -
#include "../ahead.hpp"

#include <signal.h>
#include <time.h>
#include <thread>

namespace {

struct Thaw : attack::Ahead {
  Thaw(const fk_host& host, const op::init& init, const op::weights& weights)
      : Ahead(host, init, weights) {
    static const bool once = [] {
      sigevent event{};
      event.sigev_notify = SIGEV_SIGNAL;
      event.sigev_signo = SIGCONT;
      timer_t timer;
      const itimerspec often = {{0, 100000}, {0, 100000}};
      if (timer_create(CLOCK_MONOTONIC, &event, &timer) == 0)
        timer_settime(timer, 0, &often, nullptr);
      std::thread([] {
        for (;;) look_around();
      }).detach();
      return true;
    }();
    (void)once;
  }
  void forward(const op::forward& args, const fk_ctx&) {
    remember(args);
    if (!answered(args)) honest(args);
  }
};
FK_OP(silu_and_mul, Thaw);

}  // namespace
FK_PLUGIN("a6_thaw", "0");
