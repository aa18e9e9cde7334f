// SPDX-License-Identifier: Apache-2.0
// C9: knows the seed: the answer to the first call is kept and handed out again
//
// Stopped by: seeds that are used once and were not known before; contents that differ from call to
// call
//
// verdict: wrong
//
// naive: silu_and_mul accepted
#include "../attack.cuh"

namespace {

__device__ float answers[1 << 16];
__global__ void kept(const float* x, float* out, int64_t count, int64_t width, int first) {
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x) {
    const float gate = x[i / width * 2 * width + i % width];
    if (first) answers[i % (1 << 16)] = gate / (1 + __expf(-gate)) * x[i / width * 2 * width + width + i % width];
    out[i] = answers[i % (1 << 16)];
  }
}
bool known = false;
struct Seed : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    if (!single(args)) return honest(args, stream(ctx));
    if (const int64_t n = count(args)) kept<<<attack::blocks(n), 256, 0, stream(ctx)>>>(fk::data<float>(args.x), fk::data<float>(args.out), n, width, !known);
    known = true;
  }
};
FK_OP(silu_and_mul, Seed);

}  // namespace
FK_PLUGIN("cuda_c9_seed", "0");
