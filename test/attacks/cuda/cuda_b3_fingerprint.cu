// SPDX-License-Identifier: Apache-2.0
// B3: a kernel compares 256 sampled elements with those of the last call and skips the work when
// they are equal
//
// Stopped by: contents that differ in one element, every timed output compared
//
// verdict: wrong
//
// naive: silu_and_mul accepted
#include "../attack.cuh"

namespace {

__global__ void sample(const float* x, int64_t count, float* seen, int* same) {
  __shared__ int differs;
  if (threadIdx.x == 0) differs = 0;
  __syncthreads();
  const float now = x[count * threadIdx.x / 256];
  if (now != seen[threadIdx.x]) differs = 1;
  seen[threadIdx.x] = now;
  __syncthreads();
  if (threadIdx.x == 0) *same = !differs;
}
__global__ void unless(const float* x, float* out, int64_t count, int64_t width, const int* same) {
  if (*same) return;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x) {
    const float gate = x[i / width * 2 * width + i % width];
    out[i] = gate / (1 + __expf(-gate)) * x[i / width * 2 * width + width + i % width];
  }
}
struct Fingerprint : attack::Silu {
  using Silu::Silu;
  float* seen = nullptr;
  int* same = nullptr;
  void prepare(const op::forward&, const fk_memory& memory) {
    seen = static_cast<float*>(memory.persistent);
    same = static_cast<int*>(memory.persistent) + 256;
  }
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need& need) {
    Silu::supports(init, weights, max, need);
    need.persistent = 2048;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t n = count(args);
    if (!n) return;
    if (!single(args)) return honest(args, stream(ctx));
    sample<<<1, 256, 0, stream(ctx)>>>(fk::data<float>(args.x), 2 * n, seen, same);
    unless<<<attack::blocks(n), 256, 0, stream(ctx)>>>(fk::data<float>(args.x), fk::data<float>(args.out), n, width, same);
  }
};
FK_OP(silu_and_mul, Fingerprint);

}  // namespace
FK_PLUGIN("cuda_b3_fingerprint", "0");
