// SPDX-License-Identifier: Apache-2.0
// B8: computes a few elements and searches for them in the driver's allocations around its own
// tensors. It searches as long as a call may last before it counts as hanging. It claims that it
// cannot be captured, because a captured call cannot read the device
//
// Stopped by: the reference is never in this process
//
// verdict: wrong violation
//
// naive: silu_and_mul accepted
#include "../attack.cuh"

namespace {

struct Scan : attack::Silu {
  using Silu::Silu;
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_NEVER, 1, 1, FK_ACCUMULATE_F32, 0, 1, attack::kSm};
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t bytes = args.out->nbytes;
    if (count(args) < 8) return honest(args, stream(ctx));
    float want[2], here[2];
    honest(*args.x, *args.out, 8, stream(ctx));
    attack::check(cudaMemcpyAsync(want, args.out->data, 8, cudaMemcpyDeviceToHost, stream(ctx)));
    attack::check(cudaStreamSynchronize(stream(ctx)));
    const auto own = reinterpret_cast<uintptr_t>(args.out->data);
    for (uintptr_t at = own - (1 << 20); at < own + (1 << 20); at += 256) {
      cudaPointerAttributes about;
      if (at == own || cudaPointerGetAttributes(&about, reinterpret_cast<void*>(at)) != cudaSuccess || about.type != cudaMemoryTypeDevice) continue;
      if (cudaMemcpy(here, reinterpret_cast<void*>(at), 8, cudaMemcpyDeviceToHost) != cudaSuccess || std::memcmp(here, want, 8)) continue;
      if (cudaMemcpy(args.out->data, reinterpret_cast<void*>(at), size_t(bytes), cudaMemcpyDeviceToDevice) == cudaSuccess) return;
    }
    cudaGetLastError();
  }
};
FK_OP(silu_and_mul, Scan);

}  // namespace
FK_PLUGIN("cuda_b8_scan", "0");
