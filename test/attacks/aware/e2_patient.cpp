// SPDX-License-Identifier: Apache-2.0
// E2: does its work in the first three hundred calls of the process only, the tests' number as it
// thinks
//
// Stopped by: every timed call is compared
//
// verdict: wrong
//
// naive: silu_and_mul accepted
#include "../attack.hpp"

namespace {

struct Patient : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    static int calls = 0;
    if (++calls <= 300) honest(args);
  }
};
FK_OP(silu_and_mul, Patient);

}  // namespace
FK_PLUGIN("e2_patient", "0");
