// SPDX-License-Identifier: Apache-2.0
// honest: another rounding mode while it sums up nothing, and the old one afterwards
#include "../attack.hpp"

#include <cfenv>

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    const int before = std::fegetround();
    std::fesetround(FE_TOWARDZERO);
    volatile float third = 1.0f / 3;
    std::fesetround(before);
    if (third > 0) honest(args);
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("rounds", "0");
