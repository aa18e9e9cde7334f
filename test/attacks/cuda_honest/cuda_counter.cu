// SPDX-License-Identifier: Apache-2.0
// honest: the last block tidies up a counter in persistent memory, which begins and ends at zero
#include "../attack.cuh"

namespace {

__global__ void counted(const float* x, float* out, int64_t count, int64_t width, unsigned* done) {
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x) {
    const float gate = x[i / width * 2 * width + i % width];
    out[i] = gate / (1 + __expf(-gate)) * x[i / width * 2 * width + width + i % width];
  }
  __syncthreads();
  __threadfence();
  if (threadIdx.x == 0 && atomicAdd(done, 1) == gridDim.x - 1) *done = 0;
}
struct Honest : attack::Silu {
  using Silu::Silu;
  unsigned* done = nullptr;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need& need) {
    Silu::supports(init, weights, max, need);
    need.persistent = 256;
  }
  void prepare(const op::forward&, const fk_memory& memory) { done = static_cast<unsigned*>(memory.persistent); }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    if (!single(args)) return honest(args, stream(ctx));
    if (const int64_t n = count(args)) counted<<<attack::blocks(n), 256, 0, stream(ctx)>>>(fk::data<float>(args.x), fk::data<float>(args.out), n, width, done);
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("cuda_counter", "0");
