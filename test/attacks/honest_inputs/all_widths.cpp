// SPDX-License-Identifier: Apache-2.0
// honest: takes every width: code for one that is known when it is compiled, and other code for the
// rest
//
// size: ci
#include "../attack.hpp"

namespace {

struct AllWidths : attack::Silu {
  using Silu::Silu;
  template <int64_t kWidth>
  static void known(const op::forward& args) {
    attack::silu_rows(args.x, args.out, kWidth, 0, rows(args));
  }
  void forward(const op::forward& args, const fk_ctx&) {
    if (width == 1024) return known<1024>(args);
    honest(args);
  }
};
FK_OP(silu_and_mul, AllWidths);

}  // namespace
FK_PLUGIN("all_widths", "0");
