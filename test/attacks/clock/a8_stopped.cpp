// SPDX-License-Identifier: Apache-2.0
// A8: stops its own process in the middle of a call, so that the controller believes that it was
// the one who did
//
// Stopped by: patience; a worker that does not answer is killed
//
// verdict: hang
//
// naive: -
#include "../attack.hpp"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

struct Stopped : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward&, const fk_ctx&) { syscall(SYS_kill, getpid(), SIGSTOP); }
};
FK_OP(silu_and_mul, Stopped);

}  // namespace
FK_PLUGIN("a8_stopped", "0");
