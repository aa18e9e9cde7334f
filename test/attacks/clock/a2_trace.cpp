// SPDX-License-Identifier: Apache-2.0
// A2: attaches to the parent like a debugger, stops it and never lets go, so the parent's clock and
// comparison stand still; writes zeros
//
// Stopped by: the sandbox refuses ptrace
//
// verdict: violation
//
// naive: -
#include "../attack.hpp"

#include <sys/ptrace.h>
#include <unistd.h>

namespace {

struct Trace : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    if (ptrace(PTRACE_SEIZE, getppid(), nullptr, nullptr) == 0)
      ptrace(PTRACE_INTERRUPT, getppid(), nullptr, nullptr);
    fill(args, 0);
  }
};
FK_OP(silu_and_mul, Trace);

}  // namespace
FK_PLUGIN("a2_trace", "0");
