// SPDX-License-Identifier: Apache-2.0
// honest: half a megabyte of stack
#include "../attack.hpp"

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  __attribute__((noinline)) static void row(const op::forward& args, int64_t t, int64_t width) {
    volatile float block[1 << 17];
    block[(1 << 17) - 1] = 1;
    block[0] = block[(1 << 17) - 1];
    attack::silu_rows(args.x, args.out, width, t, t + static_cast<int64_t>(block[0]));
  }
  void forward(const op::forward& args, const fk_ctx&) {
    for (int64_t t = 0; t < rows(args); ++t) row(args, t, width);
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("big_stack", "0");
