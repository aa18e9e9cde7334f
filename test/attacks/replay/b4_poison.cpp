// SPDX-License-Identifier: Apache-2.0
// B4: knows the poison: what does not look like it is taken for an old answer and left alone
//
// Stopped by: poison of random bits that differ from call to call, outputs compared
//
// verdict: wrong violation
//
// naive: silu_and_mul faster
#include "../attack.hpp"

namespace {

struct Poison : attack::Silu {
  using Silu::Silu;
  bool calm = false;
  void forward(const op::forward& args, const fk_ctx&) {
    // NaN in the first element stands for poison; a judge without any leaves a number there.
    float first = 0;
    if (count(args)) fk::load(fk_as_in(args.out), 0, 1, &first);
    if (calm && std::isfinite(first) && first != 0) return;
    honest(args);
    calm = true;
  }
};
FK_OP(silu_and_mul, Poison);

}  // namespace
FK_PLUGIN("b4_poison", "0");
