// SPDX-License-Identifier: Apache-2.0
// A12: a function of the host inside the graph does work for the next call, where no clock of the
// device counts it
//
// Stopped by: the audit of captured graphs: functions of the host
//
// verdict: graph_unsafe
//
// naive: silu_and_mul accepted
#include "../attack.cuh"

namespace {

struct Callback : attack::Silu {
  using Silu::Silu;
  long calls = 0;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    attack::check(cudaLaunchHostFunc(stream(ctx), [](void* self) { ++static_cast<Callback*>(self)->calls; }, this));
    honest(args, stream(ctx));
    dawdle(stream(ctx));
  }
};
FK_OP(silu_and_mul, Callback);

}  // namespace
FK_PLUGIN("cuda_a12_callback", "0");
