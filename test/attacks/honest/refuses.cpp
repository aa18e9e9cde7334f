// SPDX-License-Identifier: Apache-2.0
// honest: takes float32 of even widths only and says so
#include "../attack.hpp"

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    if (FK_DTYPE(max.x) != FK_F32) throw fk::unsupported{"x: float32 only"};
    if (init.size % 2) throw fk::unsupported{"even sizes only"};
  }
  void forward(const op::forward& args, const fk_ctx&) { honest(args); }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("refuses", "0");
