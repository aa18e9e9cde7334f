// SPDX-License-Identifier: Apache-2.0
// A4: claims that it cannot be captured and does its work on a stream of its own, which nobody
// joins
//
// Stopped by: outputs are compared when the given stream is done; the whole device is within the
// controller's time
//
// verdict: violation wrong cheating
//
// naive: silu_and_mul faster
#include "../attack.cuh"

namespace {

struct Eager : attack::Silu {
  using Silu::Silu;
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_NEVER, 1, 1, FK_ACCUMULATE_F32, 0, 1, attack::kSm};
  void forward(const op::forward& args, const fk_ctx&) {
    static cudaStream_t own = nullptr;
    if (!own) attack::check(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
    dawdle(own);
    honest(args, own);
  }
};
FK_OP(silu_and_mul, Eager);

}  // namespace
FK_PLUGIN("cuda_a4_eager", "0");
