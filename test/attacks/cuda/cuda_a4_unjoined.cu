// SPDX-License-Identifier: Apache-2.0
// A4: forks a stream from the given one with an event, and does not join it again
//
// Stopped by: an unjoined capture fails; the output is compared when the given stream is done
//
// verdict: graph_unsafe
//
// naive: silu_and_mul faster
#include "../attack.cuh"

namespace {

struct Unjoined : attack::Silu {
  using Silu::Silu;
  cudaStream_t own = nullptr;
  cudaEvent_t forked = nullptr;
  void prepare(const op::forward&, const fk_memory&) {
    attack::check(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
    attack::check(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming));
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    attack::check(cudaEventRecord(forked, stream(ctx)));
    attack::check(cudaStreamWaitEvent(own, forked, 0));
    dawdle(own);
    honest(args, own);
  }
};
FK_OP(silu_and_mul, Unjoined);

}  // namespace
FK_PLUGIN("cuda_a4_unjoined", "0");
