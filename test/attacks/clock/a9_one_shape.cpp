// SPDX-License-Identifier: Apache-2.0
// A9: right everywhere but for one row alone, where the time is nothing and the mean collapses
//
// Stopped by: every timed call is compared; a time below the roofline's floor is impossible
//
// verdict: wrong
//
// naive: -
#include "../attack.hpp"

namespace {

struct OneShape : attack::Silu {
  using Silu::Silu;
  bool seen = false;
  void forward(const op::forward& args, const fk_ctx&) {
    if (rows(args) % 2 && seen) return;
    honest(args);
    seen = true;
  }
};
FK_OP(silu_and_mul, OneShape);

}  // namespace
FK_PLUGIN("a9_one_shape", "0");
