// SPDX-License-Identifier: Apache-2.0
// B5: as cuda_b5_graph, with a graph for each instance. A judge with an instance for each set of
// buffers does not notice it in its race
//
// Stopped by: an instance is called on other buffers, too
//
// verdict: violation illegal_access
//
// naive: silu_and_mul accepted
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
  cudaGraphExec_t made = nullptr;
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
FK_PLUGIN("cuda_b5_instance", "0");
