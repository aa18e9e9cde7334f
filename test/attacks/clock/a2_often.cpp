// SPDX-License-Identifier: Apache-2.0
// A2: the clock of its process nearly stands still while the work goes on, but in half of the
// samples only, one of each pair, so that what is usual between the clocks is what it is for others
//
// Stopped by: samples that are as long as the broker's clock has them, where they contradict the
// claims
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
