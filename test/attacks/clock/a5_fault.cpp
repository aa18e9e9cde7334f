// SPDX-License-Identifier: Apache-2.0
// A5: takes the output's pages away and returns; whoever reads them first faults, and the handler
// does the work then
//
// Stopped by: the output is compared by another process through its own mapping
//
// verdict: wrong
//
// naive: silu_and_mul faster
#include "../attack.hpp"

#include <signal.h>
#include <sys/mman.h>

namespace {

// The work that waits until a page is read.
struct Lazy {
  fk_in x;
  fk_out out;
  int64_t width, rows;
  char *from, *to;
};
Lazy waiting[64];
int used = 0;
void handler(int, siginfo_t* info, void*) {
  for (Lazy& lazy : waiting) {
    auto* at = static_cast<char*>(info->si_addr);
    if (at < lazy.from || at >= lazy.to) continue;
    mprotect(lazy.from, static_cast<size_t>(lazy.to - lazy.from), PROT_READ | PROT_WRITE);
    attack::silu_rows(&lazy.x, &lazy.out, lazy.width, 0, lazy.rows);
    lazy.from = lazy.to = nullptr;
    return;
  }
  signal(SIGSEGV, SIG_DFL);
}
struct Fault : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    auto* data = static_cast<char*>(args.out->data);
    auto* from = reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(data) & ~uintptr_t{4095});
    const auto size = static_cast<size_t>((data + args.out->nbytes - from + 4095) / 4096 * 4096);
    for (Lazy& old : waiting)
      if (old.from == from) old.from = old.to = nullptr;
    waiting[used++ % 64] = {*args.x, *args.out, width, rows(args), from, from + size};
    struct sigaction action = {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, nullptr);
    mprotect(from, size, PROT_NONE);
  }
};
FK_OP(silu_and_mul, Fault);

}  // namespace
FK_PLUGIN("a5_fault", "0");
