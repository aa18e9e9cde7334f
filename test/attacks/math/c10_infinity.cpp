// SPDX-License-Identifier: Apache-2.0
// C10: one row in a hundred is infinite
//
// Stopped by: where infinity may stand is known from the reference
//
// verdict: wrong
//
// naive: silu_and_mul accepted
#include "../attack.hpp"

namespace {

struct Infinity : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    honest(args);
    const float huge = HUGE_VALF;
    for (int64_t i = 0; i < count(args); i += 200) fk::store(args.out, i, 1, &huge);
  }
};
FK_OP(silu_and_mul, Infinity);

}  // namespace
FK_PLUGIN("c10_infinity", "0");
