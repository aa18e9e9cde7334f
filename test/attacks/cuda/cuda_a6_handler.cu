// SPDX-License-Identifier: Apache-2.0
// A6: a handler of SIGCONT runs as soon as the process goes on. It launches work on the new inputs
// before the message that starts the clock has arrived
//
// work: broken
//
// Stopped by: new signal handlers are seen from outside, by comparison with the time before and
// with another process
//
// verdict: violation
//
// naive: silu_and_mul accepted
#include "../attack.cuh"

#include <signal.h>

namespace {

struct Handler : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    static const int made = sigaction(SIGCONT, &action, nullptr);
    (void)made;
    honest(args, stream(ctx));
  }
};
FK_OP(silu_and_mul, Handler);

}  // namespace
FK_PLUGIN("cuda_a6_handler", "0");
