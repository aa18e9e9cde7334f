// SPDX-License-Identifier: Apache-2.0
// honest: a side stream of high priority, declared, forked and joined in every call
#include "../attack.cuh"

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  static constexpr fk_claims claims{FK_END(fk_claims, sm), FK_CUDA, FK_GRAPH_ALWAYS, 1, 1, FK_ACCUMULATE_F32, 1, 1, attack::kSm};
  cudaStream_t own = nullptr;
  cudaEvent_t forked = nullptr, joined = nullptr;
  void prepare(const op::forward&, const fk_memory&) {
    int least = 0, greatest = 0;
    attack::check(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    attack::check(cudaStreamCreateWithPriority(&own, cudaStreamNonBlocking, greatest));
    attack::check(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming));
    attack::check(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
  }
  ~Honest() {
    cudaEventDestroy(joined);
    cudaEventDestroy(forked);
    cudaStreamDestroy(own);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    attack::check(cudaEventRecord(forked, stream(ctx)));
    attack::check(cudaStreamWaitEvent(own, forked, 0));
    honest(args, own);
    attack::check(cudaEventRecord(joined, own));
    attack::check(cudaStreamWaitEvent(stream(ctx), joined, 0));
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("cuda_priority", "0");
