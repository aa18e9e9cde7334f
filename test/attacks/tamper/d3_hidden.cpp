// SPDX-License-Identifier: Apache-2.0
// D3: has a signal handler as long as an instance lives, and restores the old one when the last
// instance is destroyed
//
// work: broken
//
// Stopped by: handlers are looked at from outside while the instances still exist
//
// verdict: violation
//
// naive: silu_and_mul accepted
#include "../attack.hpp"

#include <signal.h>

namespace {

struct Hidden : attack::Silu {
  static inline int alive = 0;
  static inline struct sigaction before {};
  Hidden(const fk_host& host, const op::init& init, const op::weights& weights)
      : Silu(host, init, weights) {
    if (alive++) return;
    struct sigaction own {};
    own.sa_handler = [](int) {};
    sigaction(SIGUSR1, &own, &before);
  }
  ~Hidden() {
    if (--alive == 0) sigaction(SIGUSR1, &before, nullptr);
  }
  void forward(const op::forward& args, const fk_ctx&) { honest(args); }
};
FK_OP(silu_and_mul, Hidden);

}  // namespace
FK_PLUGIN("d3_hidden", "0");
