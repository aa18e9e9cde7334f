// SPDX-License-Identifier: Apache-2.0
// A3: replaces the recording of events, so that the one that begins is recorded when the work is
// done
//
// Stopped by: the worker's time is a claim; the two clocks must agree
//
// verdict: cheating
//
// naive: silu_and_mul faster
//
// work: honest
#include "../imports.hpp"
#include "../attack.cuh"

namespace {

cudaEvent_t first = nullptr;
decltype(&cudaEventRecord) real = nullptr;
// When the second of two events in turn is recorded, the first is recorded again.
cudaError_t record(cudaEvent_t event, cudaStream_t on) {
  if (!first) first = event;
  if (event != first) real(first, on);
  return real(event, on);
}
struct Events : attack::Silu {
  using Silu::Silu;
  Events(const fk_host& host, const op::init& init, const op::weights& weights) : Silu(host, init, weights) {
    if (real) return;
    real = &cudaEventRecord;
    attack::replace_import("cudaEventRecord", reinterpret_cast<void*>(&record), attack::Where::program);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    dawdle(stream(ctx));
    honest(args, stream(ctx));
  }
};
FK_OP(silu_and_mul, Events);

}  // namespace
FK_PLUGIN("cuda_a3_events", "0");
