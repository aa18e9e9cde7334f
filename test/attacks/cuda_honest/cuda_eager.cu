// SPDX-License-Identifier: Apache-2.0
// honest: claims that it cannot be captured
#include "../attack.cuh"

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_NEVER, 1, 1, FK_ACCUMULATE_F32, 0, 1, attack::kSm};
  void forward(const op::forward& args, const fk_ctx& ctx) {
    attack::check(cudaStreamSynchronize(stream(ctx)));
    honest(args, stream(ctx));
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("cuda_eager", "0");
