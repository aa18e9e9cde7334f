// SPDX-License-Identifier: Apache-2.0
// honest: a library's handlers that would report a crash, asked for when it is loaded and not
// insisted on
#include "../attack.hpp"

#include <signal.h>

namespace {

void report(int number) {
  signal(number, SIG_DFL);
  raise(number);
}
[[maybe_unused]] const bool asked = [] {
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    struct sigaction before {};
    if (sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_DFL)
      signal(number, report);
    else if (signal(number, report) != SIG_ERR)
      sigaction(number, &before, nullptr);
  }
  return true;
}();

struct Honest : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) { honest(args); }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("reporter", "0");
