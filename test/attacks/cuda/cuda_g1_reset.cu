// SPDX-License-Identifier: Apache-2.0
// G1: resets the device in a call, which takes all that the host has there
//
// Stopped by: the process is its own, and used once
//
// verdict: crashed
//
// naive: - it would end as well
#include "../attack.cuh"

namespace {

struct Reset : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    honest(args, stream(ctx));
    cudaDeviceReset();
  }
};
FK_OP(silu_and_mul, Reset);

}  // namespace
FK_PLUGIN("cuda_g1_reset", "0");
