// SPDX-License-Identifier: Apache-2.0
// A6: a handler of SIGCONT runs as soon as the process goes on. It answers the new inputs before
// the message that starts the clock has arrived
//
// Stopped by: new signal handlers are seen from outside; the time that only the controller's clock
// sees is added to the claim
//
// verdict: violation hang cheating
//
// size: ci
//
// naive: -
#include "../ahead.hpp"

#include <signal.h>

namespace {

struct Handler : attack::Ahead {
  Handler(const fk_host& host, const op::init& init, const op::weights& weights)
      : Ahead(host, init, weights) {
    signal(SIGCONT, [](int) {
      look_around();  // notes
      look_around();  // answers
    });
  }
  void forward(const op::forward& args, const fk_ctx&) {
    remember(args);
    if (!answered(args)) honest(args);
  }
};
FK_OP(silu_and_mul, Handler);

}  // namespace
FK_PLUGIN("a6_handler", "0");
