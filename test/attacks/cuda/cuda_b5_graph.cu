// SPDX-License-Identifier: Apache-2.0
// B5: captures its first call into a graph, and replays this, with the first call's addresses, for
// every later call that is not captured itself
//
// Stopped by: several sets of buffers; every output compared
//
// verdict: illegal_access wrong
//
// naive: silu_and_mul faster
#include "../attack.cuh"

namespace {

cudaGraphExec_t captured(const attack::Silu& by, const attack::Silu::op::forward& args) {
  cudaStream_t own;
  cudaGraph_t graph;
  cudaGraphExec_t made = nullptr;
  attack::check(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
  attack::check(cudaStreamBeginCapture(own, cudaStreamCaptureModeRelaxed));
  by.honest(args, own);
  attack::check(cudaStreamEndCapture(own, &graph));
  attack::check(cudaGraphInstantiate(&made, graph, 0));
  return made;
}
struct Graph : attack::Silu {
  using Silu::Silu;
  static inline cudaGraphExec_t made = nullptr;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    cudaStreamCaptureStatus status;
    attack::check(cudaStreamIsCapturing(stream(ctx), &status));
    if (status != cudaStreamCaptureStatusNone) return honest(args, stream(ctx));
    if (!made) made = captured(*this, args);
    attack::check(cudaGraphLaunch(made, stream(ctx)));
  }
};
FK_OP(silu_and_mul, Graph);

}  // namespace
FK_PLUGIN("cuda_b5_graph", "0");
