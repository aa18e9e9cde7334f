// SPDX-License-Identifier: Apache-2.0
// C11: takes scratch for zeroed
//
// Stopped by: scratch is poisoned, differently from call to call
//
// verdict: violation wrong
//
// naive: silu_and_mul accepted
#include "../attack.cuh"

namespace {

__global__ void plus(const float* x, float* out, int64_t count, int64_t width, const float* zero) {
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x) {
    const float gate = x[i / width * 2 * width + i % width];
    out[i] = gate / (1 + __expf(-gate)) * x[i / width * 2 * width + width + i % width] + zero[0];
  }
}
struct Scratch : attack::Silu {
  using Silu::Silu;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need& need) {
    Silu::supports(init, weights, max, need);
    need.scratch = 4096;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t n = count(args);
    if (!single(args)) return honest(args, stream(ctx));
    if (n) plus<<<attack::blocks(n), 256, 0, stream(ctx)>>>(fk::data<float>(args.x), fk::data<float>(args.out), n, width, static_cast<float*>(ctx.scratch));
  }
};
FK_OP(silu_and_mul, Scratch);

}  // namespace
FK_PLUGIN("cuda_c11_scratch", "0");
