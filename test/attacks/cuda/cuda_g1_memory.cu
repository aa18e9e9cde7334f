// SPDX-License-Identifier: Apache-2.0
// G1: keeps 256 MiB of device memory in every call
//
// Stopped by: free memory is looked at; a worker is used once
//
// verdict: memory
//
// naive: silu_and_mul accepted
#include "../attack.cuh"

namespace {

struct Memory : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    void* lost = nullptr;
    cudaStreamCaptureStatus status;
    attack::check(cudaStreamIsCapturing(stream(ctx), &status));
    if (status == cudaStreamCaptureStatusNone && cudaMalloc(&lost, 256 << 20) != cudaSuccess) cudaGetLastError();
    dawdle(stream(ctx));
    honest(args, stream(ctx));
  }
};
FK_OP(silu_and_mul, Memory);

}  // namespace
FK_PLUGIN("cuda_g1_memory", "0");
