// SPDX-License-Identifier: Apache-2.0
// A6: an endless kernel computes the answers to all contents of the buffers that it has seen. So
// nothing is left to do when the clock runs
//
// Stopped by: all streams of the process are waited for before inputs change and within the
// controller's time
//
// verdict: hang
//
// naive: silu_and_mul faster
#include "../attack.cuh"

namespace {

struct Work {
  const float* x;
  float* out;
  int64_t elements, width;
};
constexpr int kMost = 4096;
__device__ Work works[kMost];
__device__ volatile int known;

// All that it knows, over and over; one warp per buffer at a time.
__global__ void for_ever() {
  const int warps = gridDim.x * blockDim.x / 32, own = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  for (;;)
    for (int k = own; k < known; k += warps) {
      const Work w = works[k];
      for (int64_t i = threadIdx.x % 32; i < w.elements; i += 32) {
        const volatile float* x = w.x + i / w.width * 2 * w.width + i % w.width;
        const float gate = x[0];
        *(volatile float*)(w.out + i) = gate / (1 + __expf(-gate)) * x[w.width];
      }
    }
}
__global__ void learn(Work work) {
  for (int k = 0; k < known; ++k)
    if (works[k].x == work.x) return;
  works[known] = work;
  __threadfence();
  known = known + 1;
}
bool running = false;
struct Persistent : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    if (!single(args)) return honest(args, stream(ctx));
    cudaStreamCaptureStatus status;
    attack::check(cudaStreamIsCapturing(stream(ctx), &status));
    const Work work{fk::data<float>(args.x), fk::data<float>(args.out), count(args), width};
    if (status == cudaStreamCaptureStatusNone) learn<<<1, 1, 0, stream(ctx)>>>(work);
    attack::wait_for<<<1, 1, 0, stream(ctx)>>>(100);
    attack::check(cudaPeekAtLastError());
    if (running) return;
    running = true;
    cudaStream_t own;
    attack::check(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
    for_ever<<<32, 256, 0, own>>>();
  }
};
FK_OP(silu_and_mul, Persistent);

}  // namespace
FK_PLUGIN("cuda_a6_persistent", "0");
