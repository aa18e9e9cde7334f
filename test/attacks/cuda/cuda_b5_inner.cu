// SPDX-License-Identifier: Apache-2.0
// B5: launches a graph of its own, captured with the first call's addresses, inside of the host's
//
// Stopped by: CUDA launches no graph on a stream that is captured; the audit of captured graphs: graphs
// inside
//
// verdict: graph_unsafe
//
// naive: silu_and_mul accepted
#include "../attack.cuh"

namespace {

struct Inner : attack::Silu {
  using Silu::Silu;
  cudaGraphExec_t mine = nullptr;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    if (!mine) {
      cudaStream_t own;
      cudaGraph_t graph;
      attack::check(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
      attack::check(cudaStreamBeginCapture(own, cudaStreamCaptureModeRelaxed));
      honest(args, own);
      attack::check(cudaStreamEndCapture(own, &graph));
      attack::check(cudaGraphInstantiate(&mine, graph, 0));
    }
    attack::check(cudaGraphLaunch(mine, stream(ctx)));
  }
};
FK_OP(silu_and_mul, Inner);

}  // namespace
FK_PLUGIN("cuda_b5_inner", "0");
