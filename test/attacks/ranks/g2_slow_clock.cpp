// SPDX-License-Identifier: Apache-2.0
// G2: right on all ranks. From the first call of a sample on, every rank's clock runs at a third of
// its speed. It is right again before the next sample, so the clocks agree whenever they are
// compared
//
// Stopped by: what the controller's clock sees beyond the claims is added to them
//
// verdict: cheating slower same cannot_tell
//
// work: honest
//
// naive: -
#include "../ranks.hpp"
#include "../slow_clock.hpp"

namespace {

int64_t begin_ns = 0, last_ns = 0;  // of a sample's calls
constexpr int64_t kPauseNs = 200'000;

int told_since(clockid_t, timespec* out) {
  int64_t t = attack::true_ns();
  if (t - last_ns < kPauseNs) t = begin_ns + (t - begin_ns) / 3;
  out->tv_sec = t / 1000000000, out->tv_nsec = t % 1000000000;
  return 0;
}

struct SlowClock : attack::AllReduce {
  SlowClock(const fk_host& host, const op::init& init, const op::weights& weights)
      : AllReduce(host, init, weights) {
    attack::replace_import("clock_gettime", reinterpret_cast<void*>(&told_since),
                           attack::Where::everywhere);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t now = attack::true_ns();
    if (now - last_ns >= kPauseNs) begin_ns = now;
    last_ns = now;
    honest(args, ctx);
    last_ns = attack::true_ns();
  }
};
FK_OP(all_reduce, SlowClock);

}  // namespace
FK_PLUGIN("g2_slow_clock", "0");
