// SPDX-License-Identifier: Apache-2.0
// E2: does its work in eager calls; a captured one, which is what is timed, is a copy of the input
//
// Stopped by: captured calls are compared as eager ones are
//
// verdict: wrong
//
// naive: - it captures no calls
#include "../attack.cuh"

namespace {

struct Captured : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    cudaStreamCaptureStatus status;
    attack::check(cudaStreamIsCapturing(stream(ctx), &status));
    if (status == cudaStreamCaptureStatusNone || !count(args)) return honest(args, stream(ctx));
    attack::check(cudaMemcpyAsync(args.out->data, args.x->data, size_t(args.out->nbytes), cudaMemcpyDeviceToDevice, stream(ctx)));
  }
};
FK_OP(silu_and_mul, Captured);

}  // namespace
FK_PLUGIN("cuda_e2_captured", "0");
