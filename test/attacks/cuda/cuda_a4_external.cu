// SPDX-License-Identifier: Apache-2.0
// A4: right in an eager call; a captured call has only an event in its graph, which starts the work
// on a stream outside
//
// Stopped by: the audit of captured graphs: events of streams outside
//
// verdict: graph_unsafe
//
// naive: - it captures no calls
#include "../attack.cuh"

namespace {

struct External : attack::Silu {
  using Silu::Silu;
  cudaStream_t own = nullptr;
  cudaEvent_t go = nullptr;
  void prepare(const op::forward&, const fk_memory&) {
    attack::check(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
    attack::check(cudaEventCreateWithFlags(&go, cudaEventDisableTiming));
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    cudaStreamCaptureStatus status;
    attack::check(cudaStreamIsCapturing(stream(ctx), &status));
    if (status == cudaStreamCaptureStatusNone) return honest(args, stream(ctx));
    attack::check(cudaEventRecordWithFlags(go, stream(ctx), cudaEventRecordExternal));
    attack::check(cudaStreamWaitEvent(own, go, 0));
    honest(args, own);
  }
};
FK_OP(silu_and_mul, External);

}  // namespace
FK_PLUGIN("cuda_a4_external", "0");
