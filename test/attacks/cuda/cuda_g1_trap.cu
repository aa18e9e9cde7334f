// SPDX-License-Identifier: Apache-2.0
// G1: a kernel that stops itself with a trap
//
// Stopped by: an error on the device ends the process that it is in, and no other
//
// verdict: crashed
//
// naive: - it would end as well
#include "../attack.cuh"

namespace {

__global__ void stop() { asm("trap;"); }
struct Trap : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    honest(args, stream(ctx));
    stop<<<1, 1, 0, stream(ctx)>>>();
  }
};
FK_OP(silu_and_mul, Trap);

}  // namespace
FK_PLUGIN("cuda_g1_trap", "0");
