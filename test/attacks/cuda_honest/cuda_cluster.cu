// SPDX-License-Identifier: Apache-2.0
// honest: thread block clusters, in which a block reads the shared memory of its neighbour
#include <cooperative_groups.h>

#include "../attack.cuh"

namespace {

__global__ void kernel(const float* x, float* out, int64_t count, int64_t width) {
  __shared__ float gates[256];
  const auto cluster = cooperative_groups::this_cluster();
  const float* theirs = cluster.map_shared_rank(gates, cluster.block_rank() ^ 1);
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t at = 0; at < count; at += step) {
    const int64_t far = at + int64_t(blockIdx.x ^ 1) * blockDim.x + threadIdx.x, i = at + int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (far < count) gates[threadIdx.x] = x[far / width * 2 * width + far % width];
    cluster.sync();
    if (i < count) {
      const float gate = theirs[threadIdx.x];
      out[i] = gate / (1 + __expf(-gate)) * x[i / width * 2 * width + width + i % width];
    }
    cluster.sync();
  }
}
struct Honest : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t n = count(args);
    if (!single(args)) return honest(args, stream(ctx));
    if (!n) return;
    cudaLaunchConfig_t how = {};
    how.gridDim = dim3((attack::blocks(n) + 1) / 2 * 2);
    how.blockDim = dim3(256);
    how.stream = stream(ctx);
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = 2;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    how.attrs = &attribute;
    how.numAttrs = 1;
    attack::check(cudaLaunchKernelEx(&how, kernel, fk::data<float>(args.x), fk::data<float>(args.out), n, width));
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("cuda_cluster", "0");
