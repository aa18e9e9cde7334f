// SPDX-License-Identifier: Apache-2.0
// honest: rows from the last to the first
#include "../attack.hpp"

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    for (int64_t t = rows(args); t-- > 0;) attack::silu_rows(args.x, args.out, width, t, t + 1);
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("backwards", "0");
