// SPDX-License-Identifier: Apache-2.0
// C11: reads shared memory before it is written: what the last block left there is mostly what it
// needs
//
// Stopped by: runs on other contents and after other kernels are compared
//
// verdict: wrong violation nondeterministic
//
// naive: - what a block finds depends on where it runs
#include "../attack.cuh"

namespace {

__global__ void stale(const float* x, float* out, int64_t count, int64_t width) {
  __shared__ float one[256];
  const float left = one[threadIdx.x];
  one[(threadIdx.x + 32) % 256] = 1;  // no barrier between
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x) {
    const float gate = x[i / width * 2 * width + i % width];
    out[i] = gate / (left + __expf(-gate)) * x[i / width * 2 * width + width + i % width];
  }
}
struct Shared : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t n = count(args);
    if (!single(args)) return honest(args, stream(ctx));
    if (n) stale<<<attack::blocks(n), 256, 0, stream(ctx)>>>(fk::data<float>(args.x), fk::data<float>(args.out), n, width);
  }
};
FK_OP(silu_and_mul, Shared);

}  // namespace
FK_PLUGIN("cuda_c11_shared", "0");
