// SPDX-License-Identifier: Apache-2.0
// honest: a cooperative launch with a barrier of the whole grid between two halves of the work
#include <cooperative_groups.h>

#include "../attack.cuh"

namespace {

__global__ void kernel(const float* x, float* out, int64_t count, int64_t width) {
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x) {
    const float gate = x[i / width * 2 * width + i % width];
    out[i] = gate / (1 + __expf(-gate));
  }
  cooperative_groups::this_grid().sync();
  for (int64_t i = count - 1 - (int64_t(blockIdx.x) * blockDim.x + threadIdx.x); i >= 0; i -= int64_t(gridDim.x) * blockDim.x)
    out[i] *= x[i / width * 2 * width + width + i % width];
}
struct Honest : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t n = count(args);
    if (!single(args)) return honest(args, stream(ctx));
    if (!n) return;
    cudaLaunchConfig_t how = {};
    how.gridDim = dim3(std::min(attack::blocks(n), 132u));
    how.blockDim = dim3(256);
    how.stream = stream(ctx);
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
    how.attrs = &attribute;
    how.numAttrs = 1;
    attack::check(cudaLaunchKernelEx(&how, kernel, fk::data<float>(args.x), fk::data<float>(args.out), n, width));
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("cuda_cooperative", "0");
