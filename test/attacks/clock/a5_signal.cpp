// SPDX-License-Identifier: Apache-2.0
// A5: returns at once; a timer's signal does the work in the judge's own thread, outside of the
// call
//
// Stopped by: the output is compared when the call has returned, in another process
//
// verdict: wrong
//
// naive: silu_and_mul faster
#include "../attack.hpp"

#include <signal.h>
#include <sys/time.h>

namespace {

attack::Silu* worker = nullptr;
fk_in x;
fk_out out;
int64_t waiting = 0;
void handler(int) {
  if (waiting) attack::silu_rows(&x, &out, worker->width, 0, waiting);
  waiting = 0;
}
struct Signal : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    worker = this, x = *args.x, out = *args.out, waiting = rows(args);
    signal(SIGALRM, handler);
    const itimerval soon = {{0, 0}, {0, 300}};
    setitimer(ITIMER_REAL, &soon, nullptr);
  }
};
FK_OP(silu_and_mul, Signal);

}  // namespace
FK_PLUGIN("a5_signal", "0");
