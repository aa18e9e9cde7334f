// SPDX-License-Identifier: Apache-2.0
// honest: takes float32 of even widths only and says so
#include "../attack.cuh"

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    if (FK_DTYPE(max.x) != FK_F32 || init.size % 2) throw fk::unsupported{"float32 and even widths only"};
  }
  void forward(const op::forward& args, const fk_ctx& ctx) { honest(args, stream(ctx)); }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("cuda_refuses", "0");
