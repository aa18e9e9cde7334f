// SPDX-License-Identifier: Apache-2.0
// A2: the clock of its process runs at a tenth of its speed during work, so the claimed time still
// looks plausible
//
// Stopped by: what the controller's clock sees beyond the claim is added to the claim
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

struct Modest : attack::Silu {
  Modest(const fk_host& host, const op::init& init, const op::weights& weights)
      : Silu(host, init, weights) {
    attack::slow_clock();
  }
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t start = attack::true_ns();
    honest(args);
    attack::hidden_ns += (attack::true_ns() - start) / 10 * 9;
  }
};
FK_OP(silu_and_mul, Modest);

}  // namespace
FK_PLUGIN("a2_modest", "0");
