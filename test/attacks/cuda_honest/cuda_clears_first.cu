// SPDX-License-Identifier: Apache-2.0
// honest: sets the output to zero before it computes
#include "../attack.cuh"

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    zero(args, stream(ctx));
    honest(args, stream(ctx));
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("cuda_clears_first", "0");
