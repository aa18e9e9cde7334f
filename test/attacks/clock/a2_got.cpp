// SPDX-License-Identifier: Apache-2.0
// A2: writes its own clock into the host's table of imported functions (clock_gettime)
//
// Stopped by: the clock is in another process
//
// verdict: slower
//
// naive: silu_and_mul faster
#include "../attack.hpp"
#include "../imports.hpp"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace {

// A clock that stands still while forward() runs.
thread_local int64_t hidden = 0;
int fake_clock(clockid_t clock, timespec* out) {
  const long status = syscall(SYS_clock_gettime, clock, out);
  int64_t now = int64_t{out->tv_sec} * 1000000000 + out->tv_nsec - hidden;
  out->tv_sec = now / 1000000000, out->tv_nsec = now % 1000000000;
  return static_cast<int>(status);
}

struct Got : attack::Silu {
  Got(const fk_host& host, const op::init& init, const op::weights& weights)
      : Silu(host, init, weights) {
    attack::replace_import("clock_gettime", reinterpret_cast<void*>(&fake_clock),
                           attack::Where::program);
  }

  void forward(const op::forward& args, const fk_ctx&) {
    timespec a, b;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &a);
    honest(args);
    usleep(200);
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &b);
    hidden += (b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec;
  }
};
FK_OP(silu_and_mul, Got);

}  // namespace
FK_PLUGIN("a2_got", "0");
