// SPDX-License-Identifier: Apache-2.0
// B7: allocates as many bytes as the output has and hands on their old contents. It claims that it
// cannot be captured, because a captured call cannot allocate
//
// Stopped by: the reference is never in this process, and its memory never comes there unwritten
//
// verdict: wrong violation
//
// naive: silu_and_mul accepted
#include "../attack.cuh"

namespace {

struct Freed : attack::Silu {
  using Silu::Silu;
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_NEVER, 1, 1, FK_ACCUMULATE_F32, 0, 1, attack::kSm};
  void forward(const op::forward& args, const fk_ctx& ctx) {
    void* found = nullptr;
    const auto bytes = size_t(args.out->nbytes);
    if (!bytes || cudaMalloc(&found, bytes) != cudaSuccess) return zero(args, stream(ctx));
    attack::check(cudaMemcpyAsync(args.out->data, found, bytes, cudaMemcpyDeviceToDevice, stream(ctx)));
    attack::check(cudaStreamSynchronize(stream(ctx)));
    cudaFree(found);
  }
};
FK_OP(silu_and_mul, Freed);

}  // namespace
FK_PLUGIN("cuda_b7_freed", "0");
