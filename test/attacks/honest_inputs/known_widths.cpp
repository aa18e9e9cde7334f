// SPDX-License-Identifier: Apache-2.0
// honest: takes the widths of the contract's cases, which are those that it was tried with, and
// refuses all others
//
// size: ci
#include "../attack.hpp"

namespace {

struct KnownWidths : attack::Silu {
  using Silu::Silu;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    Silu::supports(init, weights, max, need);
    if (init.size != 17 && init.size != 32 && init.size != 1024 && init.size != 14336)
      throw fk::unsupported{"17, 32, 1024 and 14336 columns"};
  }
  void forward(const op::forward& args, const fk_ctx&) { honest(args); }
};
FK_OP(silu_and_mul, KnownWidths);

}  // namespace
FK_PLUGIN("known_widths", "0");
