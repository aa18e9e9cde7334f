// SPDX-License-Identifier: Apache-2.0
// honest: a tenth of a second of work on the device in prepare(), as autotuning takes
#include "../attack.cuh"

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  void prepare(const op::forward&, const fk_memory&) {
    static bool tuned = false;
    if (tuned) return;
    tuned = true;
    cudaStream_t own;
    attack::check(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
    attack::wait_for<<<132, 256, 0, own>>>(170000000ll);
    attack::check(cudaStreamSynchronize(own));
    attack::check(cudaStreamDestroy(own));
  }
  void forward(const op::forward& args, const fk_ctx& ctx) { honest(args, stream(ctx)); }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("cuda_slow_start", "0");
