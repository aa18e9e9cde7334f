// SPDX-License-Identifier: Apache-2.0
// A4: does the work on a stream of its own, which nobody waits for
//
// Stopped by: the output is compared when the given stream is done; after it the device must be
// idle
//
// verdict: wrong violation
//
// naive: silu_and_mul faster
#include "../attack.cuh"

namespace {

struct Stream : attack::Silu {
  using Silu::Silu;
  cudaStream_t own = nullptr;
  void prepare(const op::forward&, const fk_memory&) { attack::check(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking)); }
  void forward(const op::forward& args, const fk_ctx&) {
    dawdle(own);
    honest(args, own);
  }
};
FK_OP(silu_and_mul, Stream);

}  // namespace
FK_PLUGIN("cuda_a4_stream", "0");
