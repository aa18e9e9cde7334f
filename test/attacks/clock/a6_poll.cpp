// SPDX-License-Identifier: Apache-2.0
// A6: a thread that sleeps for moments looks whether new inputs lie there and begins before the
// clock does
//
// Stopped by: threads that go on working are seen; some samples start late: what was done before
// the clock started shows
//
// verdict: violation crashed hang slower same cannot_tell
//
// work: honest
//
// size: ci
//
// naive: -
#include "../ahead.hpp"

#include <unistd.h>
#include <thread>

namespace {

struct Poll : attack::Ahead {
  Poll(const fk_host& host, const op::init& init, const op::weights& weights)
      : Ahead(host, init, weights) {
    static const bool once = [] {
      std::thread([] {
        for (;;) {
          look_around();
          usleep(20);
        }
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
FK_OP(silu_and_mul, Poll);

}  // namespace
FK_PLUGIN("a6_poll", "0");
