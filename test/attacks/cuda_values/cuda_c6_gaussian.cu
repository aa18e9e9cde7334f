// SPDX-License-Identifier: Apache-2.0
// C6: takes all gates for numbers between -6 and 6, as normal ones are
//
// Stopped by: inputs of other scales and distributions
//
// verdict: wrong
//
// naive: silu_and_mul accepted
#include "../attack.cuh"

namespace {

__global__ void kernel(const float* x, float* out, int64_t count, int64_t width) {
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x) {
    const float gate = x[i / width * 2 * width + i % width], up = x[i / width * 2 * width + width + i % width];
    const float g = fminf(fmaxf(gate, -6), 6);
    out[i] = g / (1 + __expf(-g)) * up;
  }
}
struct Own : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) { by(kernel, args, stream(ctx)); }
};
FK_OP(silu_and_mul, Own);

}  // namespace
FK_PLUGIN("cuda_c6_gaussian", "0");
