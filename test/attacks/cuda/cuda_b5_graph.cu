// SPDX-License-Identifier: Apache-2.0
// B5: captures its first call into a graph and replays that, with the first call's addresses, for
// every later one
//
// Stopped by: several sets of buffers; every output compared
//
// naive: -
#include "attack.cuh"

namespace {

struct Graph : attack::Silu {
  using Silu::Silu;
  cudaGraphExec_t made = nullptr;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    cudaStreamCaptureStatus status;
    attack::check(cudaStreamIsCapturing(stream(ctx), &status));
    if (status != cudaStreamCaptureStatusNone) return honest(args, stream(ctx));
    if (!made) {
      cudaStream_t own;
      cudaGraph_t graph;
      attack::check(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
      attack::check(cudaStreamBeginCapture(own, cudaStreamCaptureModeRelaxed));
      honest(args, own);
      attack::check(cudaStreamEndCapture(own, &graph));
      attack::check(cudaGraphInstantiate(&made, graph, 0));
    }
    attack::check(cudaGraphLaunch(made, stream(ctx)));
  }
};
FK_OP(silu_and_mul, Graph);

}  // namespace
FK_PLUGIN("cuda_b5_graph", "0");
