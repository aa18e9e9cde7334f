// SPDX-License-Identifier: Apache-2.0
// E2: a kernel counts on the device how often it was called and does its work the first eight times
// only
//
// Stopped by: every timed call is compared; inputs come in an order that nobody knows
//
// verdict: wrong
//
// naive: silu_and_mul accepted
#include "../attack.cuh"

namespace {

__global__ void counted(const float* x, float* out, int64_t count, int64_t width, unsigned* calls, unsigned* blocks) {
  if (*(volatile unsigned*)calls >= 8) return;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x) {
    const float gate = x[i / width * 2 * width + i % width];
    out[i] = gate / (1 + __expf(-gate)) * x[i / width * 2 * width + width + i % width];
  }
  __syncthreads();
  if (threadIdx.x == 0 && atomicInc(blocks, gridDim.x - 1) == gridDim.x - 1) ++*calls;
}
struct Replays : attack::Silu {
  using Silu::Silu;
  unsigned* calls = nullptr;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need& need) {
    Silu::supports(init, weights, max, need);
    need.persistent = 256;
  }
  void prepare(const op::forward&, const fk_memory& memory) { calls = static_cast<unsigned*>(memory.persistent); }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    if (!single(args)) return honest(args, stream(ctx));
    if (const int64_t n = count(args))
      counted<<<attack::blocks(n), 256, 0, stream(ctx)>>>(fk::data<float>(args.x), fk::data<float>(args.out), n, width, calls, calls + 1);
  }
};
FK_OP(silu_and_mul, Replays);

}  // namespace
FK_PLUGIN("cuda_e2_replays", "0");
