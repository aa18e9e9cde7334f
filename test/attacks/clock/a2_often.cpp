// SPDX-License-Identifier: Apache-2.0
// A2: the clock of its process nearly stands still during work, but only in one sample of each
// pair. So the usual gap between the clocks looks normal
//
// Stopped by: where the clocks disagree, the controller's time of the sample counts
//
// verdict: cheating slower same cannot_tell
//
// work: honest
//
// size: ci
//
// naive: -
#include "../attack.hpp"
#include "../slow_clock.hpp"

namespace {

struct Often : attack::Silu {
  static constexpr int64_t kPause = 100'000;  // between calls of one sample there is less
  static inline int64_t last = 0, samples = 0;
  Often(const fk_host& host, const op::init& init, const op::weights& weights)
      : Silu(host, init, weights) {
    attack::slow_clock();
  }
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t start = attack::true_ns();
    samples += start - last > kPause;
    honest(args);
    last = attack::true_ns();
    if ((samples + 1) % 4 < 2) attack::hidden_ns += (last - start) / 20 * 19;
  }
};
FK_OP(silu_and_mul, Often);

}  // namespace
FK_PLUGIN("a2_often", "0");
