// SPDX-License-Identifier: Apache-2.0
// honest: nothing odd at all
#include "../attack.cuh"

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) { honest(args, stream(ctx)); }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("cuda_plain", "0");
