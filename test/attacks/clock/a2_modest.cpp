// SPDX-License-Identifier: Apache-2.0
// A2: the clock of its process goes at a tenth of its speed while the work goes on, which never
// looks as if nothing had been done
//
// Stopped by: what the broker's clock sees beyond the claim is added to the claim
//
// work: honest
//
// size: ci
//
// naive: -
#include "../attack.hpp"
#include "../imports.hpp"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace {

int64_t hidden = 0;
int64_t now() {
  timespec t;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}
int slow_clock(clockid_t, timespec* out) {
  const int64_t t = now() - hidden;
  out->tv_sec = t / 1000000000, out->tv_nsec = t % 1000000000;
  return 0;
}

struct Modest : attack::Silu {
  Modest(const fk_host& host, const op::init& init, const op::weights& weights)
      : Silu(host, init, weights) {
    attack::replace_import("clock_gettime", reinterpret_cast<void*>(&slow_clock),
                           attack::Where::everywhere);
  }
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t start = now();
    honest(args);
    hidden += (now() - start) / 10 * 9;
  }
};
FK_OP(silu_and_mul, Modest);

}  // namespace
FK_PLUGIN("a2_modest", "0");
