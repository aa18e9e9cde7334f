// SPDX-License-Identifier: Apache-2.0
// G1: takes all of the device's memory when it is made
//
// Stopped by: the device's memory is looked at; it comes back with the end of the process, before
// the next one starts
//
// verdict: memory
//
// naive: - it would have no memory left
#include "../attack.cuh"

namespace {

struct All : attack::Silu {
  All(const fk_host& host, const op::init& init, const op::weights& weights) : Silu(host, init, weights) {
    for (size_t size = size_t(1) << 36; size >= size_t(1) << 21; size /= 2)
      for (void* lost = nullptr; cudaMalloc(&lost, size) == cudaSuccess;) continue;
    cudaGetLastError();
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    dawdle(stream(ctx));
    honest(args, stream(ctx));
  }
};
FK_OP(silu_and_mul, All);

}  // namespace
FK_PLUGIN("cuda_g1_all", "0");
