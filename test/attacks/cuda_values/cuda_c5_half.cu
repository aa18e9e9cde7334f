// SPDX-License-Identifier: Apache-2.0
// C5: rounds float32 inputs to eight bits of mantissa first, as tensor cores would
//
// Stopped by: an error model by dtype and reduction length
//
// verdict: wrong
//
// naive: silu_and_mul accepted
#include "../attack.cuh"

namespace {

__global__ void rounded(const float* x, float* out, int64_t count, int64_t width) {
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x) {
    const float gate = __bfloat162float(__float2bfloat16(x[i / width * 2 * width + i % width]));
    out[i] = gate / (1 + __expf(-gate)) * __bfloat162float(__float2bfloat16(x[i / width * 2 * width + width + i % width]));
  }
}
struct Rounded : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t n = count(args);
    if (!single(args)) return honest(args, stream(ctx));
    if (n) rounded<<<attack::blocks(n), 256, 0, stream(ctx)>>>(fk::data<float>(args.x), fk::data<float>(args.out), n, width);
  }
};
FK_OP(silu_and_mul, Rounded);

}  // namespace
FK_PLUGIN("cuda_c5_half", "0");
