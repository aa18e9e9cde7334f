// SPDX-License-Identifier: Apache-2.0
// honest: large dynamic shared memory, for which the kernel's attribute is set in prepare()
#include "../attack.cuh"

namespace {

__global__ void staged(const float* x, float* out, int64_t count, int64_t width) {
  extern __shared__ float stage[];
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x) {
    stage[threadIdx.x] = x[i / width * 2 * width + i % width];
    __syncwarp();
    const float gate = stage[threadIdx.x];
    out[i] = gate / (1 + __expf(-gate)) * x[i / width * 2 * width + width + i % width];
  }
}
struct Honest : attack::Silu {
  using Silu::Silu;
  void prepare(const op::forward&, const fk_memory&) {
    attack::check(cudaFuncSetAttribute(staged, cudaFuncAttributeMaxDynamicSharedMemorySize, 96 << 10));
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t n = count(args);
    if (!single(args)) return honest(args, stream(ctx));
    if (n) staged<<<attack::blocks(n), 256, 96 << 10, stream(ctx)>>>(fk::data<float>(args.x), fk::data<float>(args.out), n, width);
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("cuda_shared", "0");
